"""Compiles the stepping loop where numba is installed; the same functions run without it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
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
    settings: Any = numba.config
    before, settings.CACHE_DIR = settings.CACHE_DIR, str(_folder())
    try:
        kernel: Callable[P, R] = numba.njit(**options)(function)
    finally:
        settings.CACHE_DIR = before
    return kernel


@cache
def _folder() -> Path:
    """Where this text of the model is kept compiled: numba looks for changes only in the file of each kernel."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("model*.py")):
        digest.update(path.read_bytes())
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache_home / "npuc" / "stepped" / digest.hexdigest()[:24]
