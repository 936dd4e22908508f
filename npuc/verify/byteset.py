"""Exact sets of bytes: lattices of addresses, so that channels of two interleaved tensors are told apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]

MAX_REACH = 1 << 30
"""Bytes of the largest memory that an address can name."""

MAX_BYTES = 1 << 28
"""Bytes that one access may visit: broadcasts aside, no memory is larger."""


@dataclass(frozen=True)
class Lattice:
    """The addresses start + sum(index[i] * strides[i]) for all indices within `shape`; strides fall."""

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @cached_property
    def stop(self) -> int:
        """The address behind the last one."""
        return self.start + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)) + 1

    @property
    def is_contiguous(self) -> bool:
        """Whether every address from start to stop is in the set."""
        return math.prod(self.shape) == self.stop - self.start and self.strides in ((), (1,))

    def view(self, flags: Flags, origin: int) -> Flags:
        """The flags of the set's addresses; `flags[0]` is that of address `origin`."""
        return np.ndarray(self.shape, np.bool_, flags, self.start - origin, self.strides)


def lattice(start: int, axes: list[tuple[int, int]]) -> Lattice:
    """The set of (length, stride) axes, with repeated and adjacent axes merged into as few as possible."""
    merged: list[tuple[int, int]] = []
    for length, stride in sorted((axis for axis in axes if axis[0] > 1 and axis[1]), key=lambda axis: axis[1]):
        if merged and stride % merged[-1][1] == 0 and stride <= merged[-1][0] * merged[-1][1]:
            inner, step = merged[-1]
            merged[-1] = (inner + (length - 1) * (stride // step), step)
        else:
            merged.append((length, stride))
    merged.reverse()
    return Lattice(start, tuple(length for length, _ in merged), tuple(stride for _, stride in merged))


def visits_each_byte_once(axes: list[tuple[int, int]]) -> bool:
    """Whether no two indices meet at one address; exact for nested axes, else by counting.

    True for a set that reaches further than an address: it is out of range wherever it lies.
    """
    if sum((length - 1) * stride for length, stride in axes) >= MAX_REACH:
        return True
    extent = 1
    for length, stride in sorted((axis for axis in axes if axis[0] > 1), key=lambda axis: axis[1]):
        if stride < extent:
            return _distinct(axes) == math.prod(length for length, _ in axes)
        extent += (length - 1) * stride
    return True


def _distinct(axes: list[tuple[int, int]]) -> int:
    flags = np.zeros(1 + sum((length - 1) * stride for length, stride in axes), np.bool_)
    lattice(0, axes).view(flags, 0)[...] = True
    return int(flags.sum())


def common(a: Lattice, b: Lattice) -> range:
    """From the first to the last address that both sets have; empty when they share none."""
    low, high = max(a.start, b.start), min(a.stop, b.stop)
    if low >= high:
        return range(0)
    if a.is_contiguous and b.is_contiguous:
        return range(low, high)
    flags = _flags(a)[low - a.start : high - a.start] & _flags(b)[low - b.start : high - b.start]
    found = np.flatnonzero(flags)
    return range(low + int(found[0]), low + int(found[-1]) + 1) if len(found) else range(0)


def _flags(item: Lattice) -> Flags:
    flags = np.zeros(item.stop - item.start, np.bool_)
    item.view(flags, item.start)[...] = True
    return flags
