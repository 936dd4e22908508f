"""Whole pages of memory that numpy and an emulated core see at the same time."""

from __future__ import annotations

import mmap

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

PAGE_BYTES = 4096


def shared_bytes(n_bytes: int) -> Bytes:
    """Zeros that `is_shared`; the pages live as long as the array."""
    return np.frombuffer(mmap.mmap(-1, page_bytes(n_bytes)), np.uint8)[:n_bytes]


def page_bytes(n_bytes: int) -> int:
    """`n_bytes` rounded up to whole pages, at least one."""
    return max(-(-n_bytes // PAGE_BYTES), 1) * PAGE_BYTES


def is_shared(array: Bytes) -> bool:
    """Whether an array starts a page, and nothing but memory of its own lies in its last one."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return isinstance(owner, mmap.mmap) and array.ctypes.data % PAGE_BYTES == 0
