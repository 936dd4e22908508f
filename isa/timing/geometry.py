"""Blocks, halos and port costs in closed form: every function works on int64 columns, one row an instruction.

The port cost of an access (one pixel of one channel block, or one contiguous run) is the number of distinct aligned
8-byte words that it touches. Sums over the accesses of a region use that an address matters only modulo 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from isa.descriptors import ElementType

Ints: TypeAlias = NDArray[np.int64]

WORD_BYTES = 8
"""Bytes of the words that the SRAM ports and the DMA engine move."""

_RESIDUES = np.arange(WORD_BYTES, dtype=np.int64)
_NEVER = 1 << 40
_ELEMENT_BYTES = np.zeros(4, np.int64)
for _type, _size in ((ElementType.INT8, 1), (ElementType.UINT8, 1), (ElementType.INT16, 2), (ElementType.INT32, 4)):
    _ELEMENT_BYTES[_type] = _size


def ceil_div(value: Ints, divisor: Ints | int) -> Ints:
    """Quotient rounded towards plus infinity; `divisor` > 0."""
    return -(-value // divisor)


def _clip(value: Ints, low: Ints | int, high: Ints) -> Ints:
    clipped: Ints = np.clip(value, low, high)
    return clipped


def run_words(address: Ints, length_bytes: Ints) -> Ints:
    """Distinct aligned 8-byte words of a contiguous run; 0 for an empty run."""
    return np.where(length_bytes > 0, ((address & 7) + length_bytes + 7) >> 3, 0)


def element_bytes(element_type: Ints) -> Ints:
    """Bytes of an element of each `ElementType`."""
    return np.asarray(_ELEMENT_BYTES[element_type])


@dataclass(frozen=True)
class Axis:
    """One dimension of an instruction's output region, cut into `count` blocks: all `full` long but the last."""

    first: Ints
    extent: Ints
    full: Ints
    last: Ints
    count: Ints

    @classmethod
    def cut(cls, first: Ints, extent: Ints, block: Ints) -> Axis:
        """Blocks of `block` from `first` on; the last one is what remains of `extent`."""
        full = np.minimum(block, extent)
        count = ceil_div(extent, full)
        return cls(first, extent, full, extent - (count - 1) * full, count)

    @property
    def last_first(self) -> Ints:
        """Where the last block begins."""
        return self.first + (self.count - 1) * self.full

    def steps(self, step: Ints) -> Ints:
        """Steps of `step` elements over all blocks; a step does not cross a block."""
        return (self.count - 1) * ceil_div(self.full, step) + ceil_div(self.last, step)


@dataclass(frozen=True)
class Span:
    """Intervals [start + i step, start + i step + length) for i < count, the last `last_length` long, clipped to
    [0, limit): the rows (or pixels) of an operand that a row (or column) of blocks reads."""

    start: Ints
    step: Ints
    length: Ints
    last_length: Ints
    count: Ints
    limit: Ints

    def positions(self) -> Ints:
        """Rows (or pixels) read, counted once for each interval that holds them."""
        ends = _clamped_sum(self.start + self.length, self.step, self.count - 1, self.limit)
        starts = _clamped_sum(self.start, self.step, self.count - 1, self.limit)
        last = self.start + (self.count - 1) * self.step
        return ends - starts + _clip(last + self.last_length, 0, self.limit) - _clip(last, 0, self.limit)

    def residues(self) -> Ints:
        """The positions by their value modulo 8: [n, 8]."""
        start, step, count, limit = (v[:, None] for v in (self.start, self.step, self.count, self.limit))
        ends = _clamped_counts(start + self.length[:, None], step, count - 1, limit)
        starts = _clamped_counts(start, step, count - 1, limit)
        last = start + (count - 1) * step
        last_end = _clip(last + self.last_length[:, None], 0, limit)
        return ends - starts + _count_below(last_end) - _count_below(_clip(last, 0, limit))

    def rows_of(self, index: NDArray[np.bool_]) -> Span:
        """The spans of the selected instructions."""
        return Span(*(v[index] for v in (self.start, self.step, self.length, self.last_length, self.count, self.limit)))


def plain_span(first: Ints, extent: Ints) -> Span:
    """One interval, not clipped."""
    return Span(first, np.ones_like(first), extent, extent, np.ones_like(first), first + extent)


def window_span(axis: Axis, stride: Ints, kernel: Ints, dilation: Ints, pad: Ints, limit: Ints) -> Span:
    """Input rows that the blocks of `axis` need: ((block - 1) stride + (kernel - 1) dilation + 1), clipped to the
    tensor. Where the stride is larger than the window, the rows between windows are skipped, so that every output row
    counts for itself."""
    reach = (kernel - 1) * dilation + 1
    gaps = stride > reach
    block = np.where(gaps, 1, axis.full)
    last = np.where(gaps, 1, axis.last)
    return Span(
        axis.first * stride - pad,
        block * stride,
        (block - 1) * stride + reach,
        (last - 1) * stride + reach,
        np.where(gaps, axis.extent, axis.count),
        limit,
    )


@dataclass(frozen=True)
class Operand:
    """The access record of one tensor operand (see `isa.descriptors.tensor_fields`); strides in bytes."""

    base: Ints
    pixel: Ints
    row: Ints
    block: Ints
    last_pixel: Ints
    last_row: Ints
    element: Ints
    c0: Ints
    total_channels: Ints


@dataclass(frozen=True)
class _Piece:
    """Accesses of `length` bytes to `units` channel pieces `unit_stride` bytes apart, at every row and pixel."""

    address: Ints
    unit_stride: Ints
    units: Ints
    length: Ints
    pixel: Ints
    row: Ints

    def words(self, rows: Span, pixels: Span) -> Ints:
        total = rows.positions() * pixels.positions() * self.units * run_words(self.address, self.length)
        steady = (self.pixel | self.row | np.where(self.units > 1, self.unit_stride, 0)) & 7 == 0
        uneven = ~steady & (self.units > 0) & (self.length & 7 != 1)
        if uneven.any():
            part = _Piece(*(v[uneven] for v in vars(self).values()))
            total[uneven] = part._periodic_words(rows.rows_of(uneven), pixels.rows_of(uneven))
        return total

    def _periodic_words(self, rows: Span, pixels: Span) -> Ints:
        by_address = _convolve(_scatter(rows.residues(), self.row), _scatter(pixels.residues(), self.pixel))
        units = _count_below(self.units[:, None])
        by_address = _convolve(by_address, _scatter(units, self.unit_stride))
        words = run_words(self.address[:, None] + _RESIDUES, self.length[:, None])
        return np.asarray((by_address * words).sum(axis=1))


def operand_words(operand: Operand, rows: Span, pixels: Span, first: Ints, channels: Ints) -> Ints:
    """Words of all accesses to channels [first, first + channels) at `rows` x `pixels`, a channel block an access."""
    return sum((p.words(rows, pixels) for p in _pieces(operand, first, channels)), np.zeros_like(first))


def blocked_words(operand: Operand, rows: Span, pixels: Span, channels: Axis) -> Ints:
    """The same where blocks of channels are accessed one after the other: an access ends with its block."""
    first, extent = channels.first, channels.extent
    is_cut = (channels.count > 1) & ((first % operand.c0 != 0) | (channels.full % operand.c0 != 0))
    words = operand_words(operand, rows, pixels, first, extent)
    for i in range(int(channels.count[is_cut].max(initial=0))):
        size = np.where(i < channels.count - 1, channels.full, np.where(i < channels.count, channels.last, 0))
        of_block = operand_words(operand, rows, pixels, first + i * channels.full, np.maximum(size, 1))
        words = np.where(is_cut, np.where(i == 0, 0, words) + np.where(size > 0, of_block, 0), words)
    return words


def _pieces(operand: Operand, first: Ints, channels: Ints) -> list[_Piece]:
    """The first and last access of a pixel, which may be partial, and those between, outside and inside the ragged
    last channel block."""
    c0 = operand.c0
    ragged = np.where(operand.total_channels % c0 != 0, operand.total_channels // c0, _NEVER)

    def piece(block: Ints, blocks: Ints, skipped: Ints, length: Ints) -> _Piece:
        is_ragged = block >= ragged
        return _Piece(
            operand.base + block * operand.block + skipped * operand.element,
            operand.block,
            np.maximum(blocks, 0),
            length * operand.element,
            np.where(is_ragged & (operand.last_pixel > 0), operand.last_pixel, operand.pixel),
            np.where(is_ragged & (operand.last_row > 0), operand.last_row, operand.row),
        )

    head, tail = first // c0, (first + channels - 1) // c0
    zero, one = np.zeros_like(first), np.ones_like(first)
    inside = np.maximum(head + 1, ragged)
    return [
        piece(head, one, first % c0, np.minimum(c0 - first % c0, channels)),
        piece(head + 1, np.minimum(tail, ragged) - head - 1, zero, c0),
        piece(np.where(ragged < tail, inside, head), tail - inside, zero, c0),
        piece(tail, np.where(tail > head, one, zero), zero, first + channels - tail * c0),
    ]


def _clamped_sum(start: Ints, step: Ints, count: Ints, limit: Ints) -> Ints:
    """Sum over i < count of clamp(start + i step, 0, limit); step > 0."""
    low = _clip(ceil_div(-start, step), 0, count)
    high = _clip(ceil_div(limit - start, step), low, count)
    inside: Ints = (high - low) * start + step * ((high - low) * (low + high - 1) // 2)
    return inside + (count - high) * limit


def _clamped_counts(start: Ints, step: Ints, count: Ints, limit: Ints) -> Ints:
    """Sum over i < count of the numbers below clamp(start + i step, 0, limit) in each residue class modulo 8."""
    low = _clip(ceil_div(-start, step), 0, count)
    high = _clip(ceil_div(limit - start, step), low, count)
    inside = _floor_sum(high - low, step, start + low * step + 7 - _RESIDUES)
    return inside + (count - high) * _count_below(limit)


def _count_below(value: Ints) -> Ints:
    """Numbers in [0, value) in each residue class modulo 8; value [n, 1] >= 0, result [n, 8]."""
    return (value + 7 - _RESIDUES) >> 3


def _floor_sum(count: Ints, step: Ints, offset: Ints) -> Ints:
    """Sum over i < count of floor((i step + offset) / 8), by the eight classes of i modulo 8."""
    total = np.zeros(np.broadcast_shapes(count.shape, step.shape, offset.shape), np.int64)
    for t in range(WORD_BYTES):
        terms = np.maximum(count - t + 7, 0) >> 3
        total += terms * ((t * step + offset) >> 3) + step * (terms * (terms - 1) // 2)
    return total


def _scatter(residues: Ints, stride: Ints) -> Ints:
    """Positions by residue [n, 8] to addresses by residue: position r lies at r stride."""
    result = np.zeros_like(residues)
    rows = np.arange(len(residues))
    for r in range(WORD_BYTES):
        result[rows, r * stride & 7] += residues[:, r]
    return result


def _convolve(a: Ints, b: Ints) -> Ints:
    """Addresses by residue of all sums of one address of `a` and one of `b`: a cyclic convolution of length 8."""
    return sum((a[:, r : r + 1] * np.roll(b, r, axis=1) for r in range(WORD_BYTES)), np.zeros_like(a))
