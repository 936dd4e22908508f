"""C99 that the compiler ships: kernels for the Arm core, and the ways to build and run them."""
