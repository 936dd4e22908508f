"""Flat byte memories; every access of a program is bound to them once, as a strided view.

A program has no branches and no computed addresses, so whether its accesses stay in range, and whether they read only
bytes that something has written, are properties of the program: both are decided when a view is bound, in program
order, and cost nothing when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from isa.descriptors import Memory, split_address
from simulator.errors import Site

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


class Memories:
    """Flash (the container, read-only), sram and dram as uint8 arrays, with the bytes that bound writes reach."""

    def __init__(self, flash: Bytes, sram_bytes: int, dram_bytes: int = 0) -> None:
        self.arrays = {
            Memory.FLASH: flash,
            Memory.SRAM: np.zeros(sram_bytes, np.uint8),
            Memory.DRAM: np.zeros(dram_bytes, np.uint8),
        }
        self._extent = dict.fromkeys(Memory, 0)
        self._written = {m: np.zeros(len(self.arrays[m]), np.bool_) for m in (Memory.SRAM, Memory.DRAM)}

    def clear(self) -> None:
        """Zero all bytes of sram and dram that bound writes reach."""
        for memory, extent in self._extent.items():
            if extent:
                self.arrays[memory][:extent] = 0

    def read_view(
        self, site: Site, address: int, shape: Sequence[int], strides: Sequence[int], dtype: npt.DTypeLike = np.uint8
    ) -> Array:
        """Bind a read of elements at `address` + index x `strides` (bytes)."""
        memory, view, covered = self._bind(site, "reads", address, shape, strides, dtype)
        if covered is not None and not covered.all():
            byte = _byte_at(address, int(np.argmin(covered)), covered)
            raise site.fault(
                f"reads byte {split_address(byte)[1]:#x} of {memory.name.lower()}, which nothing has written",
                "load it first, or order the instruction after the one that writes it",
            )
        view.flags.writeable = False
        return view

    def write_view(
        self, site: Site, address: int, shape: Sequence[int], strides: Sequence[int], dtype: npt.DTypeLike = np.uint8
    ) -> Array:
        """Bind a write of elements at `address` + index x `strides` (bytes); marks the bytes as written."""
        view, covered = self._bind_write(site, address, shape, strides, dtype)
        covered[...] = True
        return view

    def copy_views(
        self, site: Site, source: int, destination: int, shape: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[Array, Array]:
        """Bind a copy of bytes; strides are (source, destination). A copy of unwritten bytes counts as unwritten."""
        _, read, known = self._bind(site, "reads", source, shape, strides[0], np.uint8)
        write, covered = self._bind_write(site, destination, shape, strides[1], np.uint8)
        covered[...] = True if known is None else known
        return read, write

    def _bind_write(
        self, site: Site, address: int, shape: Sequence[int], strides: Sequence[int], dtype: npt.DTypeLike
    ) -> tuple[Array, Array]:
        memory, view, covered = self._bind(site, "writes", address, shape, strides, dtype)
        if covered is None:
            raise site.fault(f"writes address {address:#010x}, which is read-only flash")
        self._extent[memory] = max(self._extent[memory], split_address(address)[1] + _reach(shape, strides, view))
        return view, covered

    def _bind(
        self, site: Site, verb: str, address: int, shape: Sequence[int], strides: Sequence[int], dtype: npt.DTypeLike
    ) -> tuple[Memory, Array, Array | None]:
        """Memory, view, and the written flags of the view's bytes with one more axis for the bytes of an element."""
        kind = np.dtype(dtype)
        try:
            memory, offset = split_address(address)
        except ValueError:
            raise site.fault(f"{verb} address {address:#010x}, whose memory does not exist") from None
        array = self.arrays[memory]
        end = offset + _reach(shape, strides, kind)
        if end > len(array):
            raise site.fault(
                f"{verb} bytes {offset:#x}..{end - 1:#x} of {memory.name.lower()}, limit {len(array):#x}",
                f"give it at least {end} bytes" if memory is not Memory.FLASH else "the program file is incomplete",
            )
        view: Array = np.ndarray(tuple(shape), kind, array, offset, tuple(strides))
        flags = self._written.get(memory)
        if flags is None:
            return memory, view, None
        covered: Array = np.ndarray((*shape, kind.itemsize), np.bool_, flags, offset, (*strides, 1))
        return memory, view, covered


def _reach(shape: Sequence[int], strides: Sequence[int], element: Array | np.dtype[Any]) -> int:
    """Bytes from the first to behind the last byte of a strided region."""
    return sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True)) + element.itemsize


def _byte_at(address: int, first: int, covered: Array) -> int:
    """Address of element number `first`, in C order, of the flags `covered`."""
    index = np.unravel_index(first, covered.shape)
    return address + sum(int(i) * stride for i, stride in zip(index, covered.strides, strict=True))
