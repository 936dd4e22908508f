"""The calling convention of kernels on the Arm core, and integer operators as calls of them."""
