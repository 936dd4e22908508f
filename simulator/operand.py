"""Tensor operands: regions of the strided access record, gathered into and scattered from dense arrays.

Dense arrays are [rows, pixels, channels]. A region is cut into the fewest pieces that are regular in memory: rows at
the wrap of a ring, channels at block borders. A piece is a strided view [rows, pixels, blocks, channels of a block].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from isa.descriptors import ElementType
from simulator.errors import Site
from simulator.memory import Array, Memories, Pattern

DTYPES: dict[int, np.dtype[Any]] = {
    ElementType.INT8: np.dtype(np.int8),
    ElementType.UINT8: np.dtype(np.uint8),
    ElementType.INT16: np.dtype("<i2"),
    ElementType.INT32: np.dtype("<i4"),
}


@dataclass(frozen=True)
class Operand:
    """One access record of a layer descriptor, with the number of channels that decides its ragged last block."""

    base: int
    pixel: int
    row: int
    block: int
    batch: int
    last_pixel: int
    last_row: int
    ring: int
    zero_point: int
    dtype: np.dtype[Any]
    c0: int
    channels: int

    @property
    def bytes_each(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize


@dataclass(frozen=True)
class Region:
    """A box of one batch entry."""

    n: int
    y: int
    x: int
    c: int
    height: int
    width: int
    channels: int


def operand(layer: Mapping[str, int], prefix: str) -> Operand:
    """The operand `ofm`, `ifm` or `ifm2` of a layer descriptor."""
    names = ("base", "pixel", "row", "block", "batch", "last_pixel", "last_row", "ring", "zero_point")
    access = {name: layer[f"{prefix}_{name}"] for name in names}
    return Operand(
        **access,
        dtype=DTYPES[layer[f"{prefix}_type"]],
        c0=layer[f"{prefix}_c0"],
        channels=layer["ifm_channels" if prefix == "ifm" else "ofm_channels"],
    )


@dataclass(frozen=True)
class _Channels:
    """Channels [first, first + blocks * width) of a region, regular in memory from byte `offset` of row 0, pixel 0."""

    first: int
    blocks: int
    width: int
    offset: int
    pixel: int
    row: int


def _channel_runs(tensor: Operand, start: int, stop: int) -> Iterator[_Channels]:
    ragged = tensor.channels - tensor.channels % tensor.c0
    if ragged < tensor.channels and (tensor.last_pixel or tensor.last_row):
        after = ragged + tensor.c0
        yield from _regular_runs(tensor, start, min(stop, ragged))
        first, last = max(start, ragged), min(stop, after)
        if first < last:
            offset = ragged // tensor.c0 * tensor.block + (first - ragged) * tensor.bytes_each
            pixel, row = tensor.last_pixel or tensor.pixel, tensor.last_row or tensor.row
            yield _Channels(first, 1, last - first, offset, pixel, row)
        yield from _regular_runs(tensor, max(start, after), stop)
    else:
        yield from _regular_runs(tensor, start, stop)


def _regular_runs(tensor: Operand, start: int, stop: int) -> Iterator[_Channels]:
    c0, each = tensor.c0, tensor.bytes_each
    while start < stop:
        if tensor.block == c0 * each:
            blocks, width = 1, stop - start
        elif start % c0 or stop - start < c0:
            blocks, width = 1, min(c0 - start % c0, stop - start)
        else:
            blocks, width = (stop - start) // c0, c0
        offset = start // c0 * tensor.block + start % c0 * each
        yield _Channels(start, blocks, width, offset, tensor.pixel, tensor.row)
        start += blocks * width


def _row_runs(ring: int, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """(first row, row of the line buffer, rows) of the parts that do not wrap."""
    while start < stop:
        at = start % ring if ring else start
        n = min(stop - start, ring - at) if ring else stop - start
        yield start, at, n
        start += n


@dataclass(frozen=True)
class _Piece:
    rows: slice
    channels: slice
    view: Array
    """[rows, pixels, blocks, channels of a block]"""


class Access:
    """A region of an operand, bound to memory."""

    def __init__(
        self, memories: Memories, site: Site, tensor: Operand, region: Region, *, writes: bool = False
    ) -> None:
        self.shape = (region.height, region.width, region.channels)
        self.dtype = tensor.dtype
        bind = memories.write_view if writes else memories.read_view
        self._pieces = []
        for y, at, n_rows in _row_runs(tensor.ring, region.y, region.y + region.height):
            for run in _channel_runs(tensor, region.c, region.c + region.channels):
                offset = run.offset + region.n * tensor.batch + at * run.row + region.x * run.pixel
                shape = (n_rows, region.width, run.blocks, run.width)
                strides = (run.row, run.pixel, tensor.block, tensor.bytes_each)
                view = bind(site, Pattern(tensor.base + offset, shape, strides, self.dtype))
                rows = slice(y - region.y, y - region.y + n_rows)
                channels = slice(run.first - region.c, run.first - region.c + run.blocks * run.width)
                self._pieces.append(_Piece(rows, channels, view))
        single = len(self._pieces) == 1 and self._pieces[0].view.shape[2] == 1
        self._whole = self._pieces[0].view[:, :, 0, :] if single else None

    def read(self) -> Array:
        """The region as [rows, pixels, channels]: a view of memory where that is possible, else a copy."""
        if self._whole is not None:
            return self._whole
        dense = np.empty(self.shape, self.dtype)
        self.read_into(dense)
        return dense

    def read_into(self, dense: Array) -> None:
        """Copy the region into `dense` [rows, pixels, channels], cast to its type."""
        for piece in self._pieces:
            part = dense[piece.rows, :, piece.channels]
            np.copyto(part.reshape(piece.view.shape), piece.view, casting="unsafe")

    def write(self, dense: Array) -> None:
        """Copy `dense` [rows, pixels, channels] to the region."""
        for piece in self._pieces:
            part = dense[piece.rows, :, piece.channels]
            np.copyto(piece.view, part.reshape(piece.view.shape), casting="unsafe")
