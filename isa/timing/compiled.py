"""Compilation of hot kernels with numba where it is installed; the same source runs as Python where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

try:
    import numba
except ImportError:
    numba = None

IS_COMPILED = numba is not None
"""Whether kernels are compiled."""


def compiled(function: F) -> F:
    """`function` compiled on its first call and, where a cache directory can be written, kept for the next process.

    numba looks for callees' changes only in the file of the kernel, so kernels that call each other share a module.
    """
    if numba is None:
        return function
    try:
        kernel: F = numba.njit(cache=True, forceinline=True)(function)
    except RuntimeError:
        # numba found no directory to write to: neither beside the module nor in the user's cache.
        kernel = numba.njit(function)
    return kernel
