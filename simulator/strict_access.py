"""The bytes that every instruction touches, as its binder binds them: what runs is what is checked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from isa.descriptors import Memory, split_address
from simulator.errors import Site
from simulator.execute import Binding
from simulator.memory import Array, Memories, Pattern
from simulator.operand import Access, Operand, Region


class Row(NamedTuple):
    """One row of a line buffer, or one channel block of a tensor whose blocks all lie at one place; `buffer` is equal
    for operands that put their rows at the same places."""

    buffer: tuple[int, int, int]
    row: int
    patterns: tuple[Pattern, ...]
    kind: str = "row"


@dataclass
class Touched:
    """What one instruction reads and writes, flash left out; `aside` are the reads that its own writes must not meet.

    `constants` are the reads of what is no tensor, `operands` those of `ifm` and `ifm2`; `read_rows` and `written_rows`
    what is read and written of line buffers.
    """

    reads: list[Pattern] = field(default_factory=list)
    writes: list[Pattern] = field(default_factory=list)
    aside: list[Pattern] = field(default_factory=list)
    constants: list[Pattern] = field(default_factory=list)
    operands: dict[str, list[Pattern]] = field(default_factory=dict)
    read_rows: list[Row] = field(default_factory=list)
    written_rows: list[Row] = field(default_factory=list)


class Watched(Memories):
    """Memories that note what is bound to them in `touched`."""

    touched = Touched()

    def read_view(self, site: Site, pattern: Pattern) -> Array:
        view = super().read_view(site, pattern)
        self._note_read(pattern)
        return view

    def write_view(self, site: Site, pattern: Pattern) -> Array:
        view = super().write_view(site, pattern)
        self._note(self.touched.writes, pattern)
        return view

    def copy_views(self, site: Site, source: Pattern, destination: Pattern) -> tuple[Array, Array]:
        views = super().copy_views(site, source, destination)
        self._note_read(source)
        self._note(self.touched.writes, destination)
        return views

    def _note_read(self, pattern: Pattern) -> None:
        for patterns in (self.touched.reads, self.touched.aside, self.touched.constants):
            self._note(patterns, pattern)

    @staticmethod
    def _note(patterns: list[Pattern], pattern: Pattern) -> None:
        if split_address(pattern.address)[0] is not Memory.FLASH:
            patterns.append(pattern)


IN_PLACE = ("vec.add", "vec.sub", "vec.mul", "vec.table", "vec.sigmoid", "vec.tanh", "vec.softmax", "vec.copy")
"""Instructions that read an input element (of softmax: a pixel) for the last time when they write its place."""


@dataclass(frozen=True)
class WatchedBinding(Binding):
    """A binding that also notes which operands lie in line buffers, and which must not meet the output."""

    memories: Watched
    mnemonic: str = ""

    def reads(self, prefix: str, region: Region) -> Access:
        touched = self.memories.touched
        n_aside, n_constants = len(touched.aside), len(touched.constants)
        access = super().reads(prefix, region)
        in_place = prefix == "ifm2" or self.mnemonic in IN_PLACE or self._scales_pixels
        if in_place and _same_places(self.operand(prefix), self.operand("ofm")):
            del touched.aside[n_aside:]
        touched.operands[prefix] = touched.constants[n_constants:]
        del touched.constants[n_constants:]
        touched.read_rows += self._rows(prefix, region)
        return access

    @property
    def _scales_pixels(self) -> bool:
        """A depthwise convolution of one tap at every pixel: it reads an input element for that of its own place."""
        layer = self.descriptor
        window = (layer[name] for name in ("kernel_h", "kernel_w", "stride_h", "stride_w"))
        is_point = set(window) == {1} and not layer["pad_top"] and not layer["pad_left"]
        return self.mnemonic == "mac.depthwise" and is_point

    def writes(self, region: Region) -> Access:
        access = super().writes(region)
        self.memories.touched.written_rows += self._rows("ofm", region)
        return access

    def _rows(self, prefix: str, region: Region) -> list[Row]:
        tensor = self.operand(prefix)
        if split_address(tensor.base)[0] is Memory.FLASH:
            return []
        if not tensor.ring:
            return self._blocks(tensor, region) if 1 < tensor.c0 < tensor.channels and not tensor.block else []
        buffer = (tensor.base, tensor.row, tensor.ring)
        rows = []
        for y in range(region.y, region.y + region.height):
            probe = _Probe()
            Access(probe, self.site, tensor, replace(region, y=y, height=1))
            rows.append(Row(buffer, y, tuple(probe.patterns)))
        return rows

    def _blocks(self, tensor: Operand, region: Region) -> list[Row]:
        buffer, stop = (tensor.base, tensor.row, -tensor.c0), region.c + region.channels
        rows = []
        for block in range(region.c // tensor.c0, -(-stop // tensor.c0)):
            first, last = max(region.c, block * tensor.c0), min(stop, (block + 1) * tensor.c0)
            probe = _Probe()
            Access(probe, self.site, tensor, replace(region, c=first, channels=last - first))
            rows.append(Row(buffer, block, tuple(probe.patterns), "channel block"))
        return rows


class _Probe(Memories):
    """Memories that bind nothing and note everything."""

    def __init__(self) -> None:
        super().__init__(np.zeros(0, np.uint8), 0)
        self.patterns: list[Pattern] = []

    def read_view(self, site: Site, pattern: Pattern) -> Array:
        self.patterns.append(pattern)
        return np.zeros((1,) * len(pattern.shape), pattern.dtype)


def _same_places(first: Operand, second: Operand) -> bool:
    """Whether equal elements of both lie at the same bytes."""
    return replace(first, zero_point=0, dtype=second.dtype) == replace(second, zero_point=0) and (
        first.bytes_each == second.bytes_each
    )
