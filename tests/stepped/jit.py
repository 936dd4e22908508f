"""Compiles the stepping loop where numba is installed; the same functions run without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """The function, compiled at its first call when numba is there."""
    try:
        import numba
    except ImportError:
        return function
    # Without allocations nothing needs a reference count; counting those of the tuples' arrays costs 20 times the time.
    options: dict[str, Any] = {"cache": True, "error_model": "numpy", "_nrt": False}
    kernel: Callable[P, R] = numba.njit(**options)(function)
    return kernel
