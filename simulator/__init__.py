"""The simulator: runs a program bit-exactly on byte memories, and times it."""
