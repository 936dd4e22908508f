"""Compilation of hot kernels with numba where it is installed; the same source runs as Python where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])

try:
    from numba import njit
except ImportError:
    IS_COMPILED = False
else:
    IS_COMPILED = True
"""Whether kernels are compiled."""


def compiled(function: F) -> F:
    """`function` compiled on its first call and, where a cache directory can be written, kept for the next process.

    numba looks for changes only in the text of the kernel's file. Kernels that call each other therefore share a
    module, and a change of constants that they take from another module has to come with a change of theirs.
    """
    if not IS_COMPILED:
        return function
    try:
        return cast(F, njit(cache=True)(function))
    except RuntimeError:
        # numba found no directory to write to: neither beside the module nor in the user's cache.
        return cast(F, njit(function))
