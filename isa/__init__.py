"""The contract between compiler and machine: instructions, arithmetic, targets, timing and the container."""
