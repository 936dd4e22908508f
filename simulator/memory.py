"""Flat byte memories; every access of a program is bound to them once, as a strided view.

A program has no branches and no computed addresses, so whether its accesses stay in range, and whether they read only
bytes that something has written, are properties of the program: both are decided when a view is bound, in program
order, and cost nothing when the program runs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from isa.descriptors import Memory, split_address
from simulator.errors import Site
from simulator.shared_memory import shared_bytes

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_BYTE = np.dtype(np.uint8)


class Pattern(NamedTuple):
    """Elements at `address` + index x `strides` (bytes), for every index of `shape`."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any] = _BYTE

    @property
    def reach_bytes(self) -> int:
        """Bytes from the first to behind the last one."""
        return sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)) + self.dtype.itemsize

    def view(self, array: Array, offset: int) -> Array:
        """The elements, the first of them at byte `offset` of `array`."""
        return np.ndarray(self.shape, self.dtype, array, offset, self.strides)


class Memories:
    """Flash (the container, read-only), sram and dram as uint8 arrays, with the bytes that bound writes reach.

    `sram` is a number of bytes, or bytes that others use too.
    """

    def __init__(self, flash: Bytes, sram: int | Bytes, dram_bytes: int = 0) -> None:
        self.arrays = {
            Memory.FLASH: flash,
            Memory.SRAM: shared_bytes(sram) if isinstance(sram, int) else sram,
            Memory.DRAM: np.zeros(dram_bytes, np.uint8),
        }
        self._written = {m: np.zeros(len(self.arrays[m]), np.bool_) for m in (Memory.SRAM, Memory.DRAM)}
        self._extent = dict.fromkeys(self._written, 0)

    def clear(self) -> None:
        """Zero all bytes of sram and dram that bound writes reach."""
        for memory, extent in self._extent.items():
            self.arrays[memory][:extent] = 0

    def read_view(self, site: Site, pattern: Pattern) -> Array:
        """Bind a read."""
        memory, offset = self._locate(site, "reads", pattern)
        if memory in self._written:
            known = self._flags(pattern, memory, offset)
            if not known.all():
                index = np.unravel_index(int(np.argmin(known)), known.shape)
                byte = offset + sum(int(i) * stride for i, stride in zip(index, known.strides, strict=True))
                raise site.fault(
                    f"reads byte {byte:#x} of {memory.name.lower()}, which nothing has written",
                    "load it first, or order the instruction after the one that writes it",
                )
        view = pattern.view(self.arrays[memory], offset)
        view.flags.writeable = False
        return view

    def write_view(self, site: Site, pattern: Pattern) -> Array:
        """Bind a write; marks the bytes as written."""
        memory, offset = self._locate_write(site, pattern)
        self._flags(pattern, memory, offset)[...] = True
        return pattern.view(self.arrays[memory], offset)

    def copy_views(self, site: Site, source: Pattern, destination: Pattern) -> tuple[Array, Array]:
        """Bind a copy of bytes; copies of bytes that nothing has written count as not written."""
        memory, offset = self._locate(site, "reads", source)
        target, target_offset = self._locate_write(site, destination)
        known = self._flags(source, memory, offset) if memory in self._written else True
        self._flags(destination, target, target_offset)[...] = known
        return source.view(self.arrays[memory], offset), destination.view(self.arrays[target], target_offset)

    def _flags(self, pattern: Pattern, memory: Memory, offset: int) -> Array:
        """The written flags of the pattern's bytes; the last axis is that of the bytes of an element."""
        n_bytes = pattern.dtype.itemsize
        flags = Pattern(0, (*pattern.shape, n_bytes), (*pattern.strides, 1), np.dtype(np.bool_))
        return flags.view(self._written[memory], offset)

    def _locate_write(self, site: Site, pattern: Pattern) -> tuple[Memory, int]:
        memory, offset = self._locate(site, "writes", pattern)
        if memory is Memory.FLASH:
            raise site.fault(f"writes address {pattern.address:#010x}, which is read-only flash")
        self._extent[memory] = max(self._extent[memory], offset + pattern.reach_bytes)
        return memory, offset

    def _locate(self, site: Site, verb: str, pattern: Pattern) -> tuple[Memory, int]:
        try:
            memory, offset = split_address(pattern.address)
        except ValueError:
            raise site.fault(f"{verb} address {pattern.address:#010x}, whose memory does not exist") from None
        end, limit = offset + pattern.reach_bytes, len(self.arrays[memory])
        if end > limit:
            raise site.fault(
                f"{verb} bytes {offset:#x}..{end - 1:#x} of {memory.name.lower()}, limit {limit:#x}",
                f"give it at least {end} bytes" if memory is not Memory.FLASH else "keep the access in the program",
            )
        return memory, offset
