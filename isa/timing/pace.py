"""How long the body of a MAC instruction takes at least, because its blocks differ.

The other amounts of `Work` are sums over all blocks that flow side by side. The machine takes blocks one by one: while
a chunk is computed, the next one loads, and the longer of the two counts. Blocks come channels first, then pixels, then
rows, and each is full or the last on each of its axes: eight kinds, each with a few kinds of successor.

Arrays end in the instructions [n]; axes of length 2 before it are the kinds (full, last) on rows, pixels and channels.
Amounts are bytes, whole words for SRAM; times are in ticks of 1/1024 cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isa.code_table import STATES
from isa.descriptors import Memory
from isa.target import Rate, Target
from isa.timing.geometry import Axis, Ints, Span, ceil_div
from isa.timing.layer import Layer
from isa.timing.record import rate_cycles

TICKS = 1024
_FULL, _LAST = 0, 1
_SHARE_BITS = 8

Kind: TypeAlias = tuple[Any, ...]
"""An index of arrays by kind."""

_WRAPS = (
    ((_FULL, _FULL), (_FULL, _FULL)), ((_FULL, _FULL), (_FULL, _LAST)), ((_LAST, _FULL), (_LAST, _FULL)),
    ((_LAST, _FULL), (_LAST, _LAST)), ((_FULL, _LAST), (_FULL, _FULL)), ((_FULL, _LAST), (_LAST, _FULL)),
)  # fmt: skip
"""Kinds (rows, pixels) of a block of pixels and of the next one; `_wrap_counts` has how often each comes."""


@dataclass(frozen=True)
class Flow:
    """Reads and writes of an instruction and the memories [n] that they go to: input and weights of one pass, residual
    operand and output of all blocks."""

    input: tuple[Ints, Ints]
    weights: tuple[Ints, Ints]
    is_coded: NDArray[np.bool_]
    residual: tuple[Ints, Ints]
    output: tuple[Ints, Ints]


@dataclass(frozen=True)
class _Chunks:
    """The chunks of each kind of block: how many, array and decoder ticks of each, and their loads: input, weights of
    the first group of output channels, weights of the others, and once a block the residual operand. Pairs are for
    (all chunks but the last, the last) of a block."""

    count: Ints
    array: Ints
    decode: tuple[Ints, Ints]
    input: tuple[Ints, Ints]
    weights: tuple[Ints, Ints]
    others: tuple[Ints, Ints]
    residual: Ints


@dataclass(frozen=True)
class _Loads:
    """Ticks of reads on a target."""

    rates: Ints
    input_memory: Ints
    weight_memory: Ints

    def chunk(self, input_bytes: Ints, weight_bytes: Ints) -> Ints:
        """Input and weights side by side, or one after the other from one memory."""
        first, second = self.ticks(input_bytes, self.input_memory), self.ticks(weight_bytes, self.weight_memory)
        return np.where(self.input_memory == self.weight_memory, first + second, np.maximum(first, second))

    def ticks(self, count_bytes: Ints, memory: Ints) -> Ints:
        """Ticks of bytes at the rate of their memory."""
        return np.asarray(count_bytes * TICKS // self.rates[memory])


def mac_pace(layer: Layer, flow: Flow, compute: Ints, target: Target) -> Ints:
    """Cycles [n], rounded down; `compute` [2, 2, 2, n]: datapath cycles of a block of each kind."""
    board = target.board
    rates = (board.flash_bytes_per_cycle, board.sram_read_bytes_per_cycle, board.dram_bytes_per_cycle, 1)
    loads = _Loads(np.maximum(np.array(rates, np.int64), 1), flow.input[1], flow.weights[1])
    chunks = _chunks(layer, flow, compute, target)
    alone = _inner(chunks, loads)
    n_c = layer.channels.count
    each = slice(None)
    full, last = (each, each, _FULL), (each, each, _LAST)
    column = (n_c - 1) * alone[full] + alone[last]
    column += np.maximum(n_c - 2, 0) * _outer(chunks, loads, full, full)
    column += np.where(n_c > 1, _outer(chunks, loads, full, last), 0)
    delay = _write_delay(layer, flow, chunks, loads, target)
    column += (n_c - 1) * delay[full]
    before, after = (tuple(np.array([pair[side] for pair in _WRAPS]).T) for side in (0, 1))
    floor = _column_floor(layer, flow, chunks, before, after, loads, target)
    wrap = _outer(chunks, loads, (*before, _LAST), (*after, _FULL))
    longest = np.maximum(column[before] + delay[(*before, _LAST)] + wrap, floor)
    total: Ints = (_wrap_counts(layer) * longest).sum(axis=0) + column[_LAST, _LAST]
    return total // TICKS + np.where(flow.is_coded, rate_cycles(np.array([STATES]), target.costs.decoder_weights), 0)


def _wrap_counts(layer: Layer) -> Ints:
    """How often each of `_WRAPS` comes [6, n]."""
    rows, pixels = layer.rows.count, layer.pixels.count
    same, to_last = np.maximum(pixels - 2, 0), np.minimum(pixels - 1, 1)
    return np.stack(
        [(rows - 1) * same, (rows - 1) * to_last, same, to_last, np.maximum(rows - 2, 0), np.minimum(rows - 1, 1)]
    )


def _inner(chunks: _Chunks, loads: _Loads) -> Ints:
    """Ticks of each kind of block while its own chunks load behind the first."""
    busy = np.maximum(chunks.array, chunks.decode[0])
    weights = [first + chunks.others[0] for first in chunks.weights]
    full = np.maximum(busy, loads.chunk(chunks.input[0], weights[0]))
    last = np.maximum(busy, loads.chunk(chunks.input[1] + chunks.residual, weights[1]))
    return np.maximum(chunks.count - 2, 0) * full + np.where(chunks.count > 1, last, 0)


def _outer(chunks: _Chunks, loads: _Loads, block: Kind, following: Kind) -> Ints:
    """Ticks of the last chunk of a block, while the first one of the block behind it loads."""
    inputs, weights = (amount[following] for amount in _first(chunks))
    residual = np.where(chunks.count > 1, 0, chunks.residual)[block]
    loading = loads.chunk(inputs + residual, weights + chunks.others[1][block])
    return np.asarray(np.maximum(np.maximum(chunks.array, chunks.decode[1])[block], loading))


def _write_delay(layer: Layer, flow: Flow, chunks: _Chunks, loads: _Loads, target: Target) -> Ints:
    """What the output of each kind of block costs the chunks of the next one where it goes through the port of the
    loads: of the port it takes w = its words over the time in which its values are made and pass the output stage, at
    most half, and in that time chunks that load l from SRAM take l / (1 - w) at least."""
    if not target.board.sram_shared_port:
        return np.zeros_like(chunks.array)
    through_port = (flow.output[1] == Memory.SRAM) & (flow.input[1] == Memory.SRAM)
    written = loads.ticks(np.where(through_port, _share(layer, flow.output[0]), 0), flow.input[1])
    made = np.where(layer.is_depthwise, chunks.count, 1) * chunks.array
    window = np.maximum(np.maximum(_at_rate(_values(layer), target.costs.output_stage), made), 2 * written)
    weights = chunks.weights[0] + chunks.others[0]
    load = loads.ticks(chunks.input[0] + np.where(flow.weights[1] == Memory.SRAM, weights, 0), flow.input[1])
    usual = np.maximum(chunks.array, loads.chunk(chunks.input[0], weights))
    slowed = np.maximum(usual, load * window // np.maximum(window - written, 1))
    return np.asarray(np.minimum(window, chunks.count * slowed) * (slowed - usual) // np.maximum(slowed, 1))


def _values(layer: Layer) -> Ints:
    """Output values of each kind of block."""
    h, w, c = (np.stack([axis.full, axis.last]) for axis in (layer.rows, layer.pixels, layer.channels))
    return np.asarray(h[:, None, None] * w[None, :, None] * c)


def _share(layer: Layer, amount: Ints) -> Ints:
    """What each kind of block has of an amount that is spread over all output values."""
    all_values = layer.rows.extent * layer.pixels.extent * layer.channels.extent
    return np.asarray(amount * _values(layer) // np.maximum(all_values, 1))


def _chunks(layer: Layer, flow: Flow, compute: Ints, target: Target) -> _Chunks:
    channels, c0 = layer.channels, layer.ifm.c0
    blocks = np.stack([channels.full, channels.last])
    count = np.stack([layer.chunks(channels.first, channels.full), layer.chunks(channels.last_first, channels.last)])
    extent = np.where(layer.is_depthwise, blocks, layer.k_channels)
    size = np.minimum(c0, extent)
    size = np.where(extent > (count - 1) * size, size, extent // count)
    sizes = size, extent - (count - 1) * size
    lanes = np.where(layer.is_depthwise, 1, np.minimum(blocks, target.architecture.cout_lanes))
    others = np.where(layer.is_depthwise, 1, blocks) - lanes
    stored = flow.weights[0] * TICKS // np.maximum(channels.extent * layer.channel_weights, 1)

    def weights(outputs: Ints, inputs: Ints) -> Ints:
        return np.asarray((outputs * layer.taps * inputs * stored // TICKS)[None, None])

    def decode(inputs: Ints) -> Ints:
        rate = target.costs.decoder_weights
        return np.where(flow.is_coded, _at_rate((lanes + others) * layer.taps * inputs, rate), 0)[None, None]

    shape = compute.shape
    residual = np.where(flow.residual[1] == flow.input[1], _share(layer, flow.residual[0]), 0)
    return _Chunks(
        np.broadcast_to(count, shape),
        compute * TICKS // count,
        (np.broadcast_to(decode(sizes[0]), shape), np.broadcast_to(decode(sizes[1]), shape)),
        _inputs(layer, flow, count, sizes),
        (np.broadcast_to(weights(lanes, sizes[0]), shape), np.broadcast_to(weights(lanes, sizes[1]), shape)),
        (np.broadcast_to(weights(others, sizes[0]), shape), np.broadcast_to(weights(others, sizes[1]), shape)),
        residual,
    )


def _inputs(layer: Layer, flow: Flow, count: Ints, sizes: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """Input of the chunks of each kind of block: its share of positions, and of the words of a position."""
    rows = _positions(layer.rows, layer.input_rows, layer.last_input_rows)
    pixels = _positions(layer.pixels, layer.input_pixels, layer.last_input_pixels)
    words = [ceil_div(size * layer.ifm.element, 8) for size in sizes]
    block = (count - 1) * words[0] + words[1]
    position = np.where(layer.is_depthwise, (layer.channels.count - 1) * block[_FULL] + block[_LAST], block[_FULL])
    total = layer.input_rows.positions() * layer.input_pixels.positions() * position
    unit = flow.input[0] * TICKS // np.maximum(total, 1)
    area = rows[:, None] * pixels[None] * unit >> 2 * _SHARE_BITS
    full, last = (np.asarray(area[:, :, None] * word // TICKS) for word in words)
    return full, last


def _positions(axis: Axis, span: Span, last: Span) -> Ints:
    """Mean positions that a full block reads, and those of the last one [2, n], in 1/256."""
    all_blocks, at_end = (reads.positions() << _SHARE_BITS for reads in (span, last))
    mean = (all_blocks - at_end) // np.maximum(axis.count - 1, 1)
    return np.stack([np.where(axis.count > 1, mean, at_end), at_end])


def _column_floor(
    layer: Layer,
    flow: Flow,
    chunks: _Chunks,
    before: tuple[Ints, ...],
    after: tuple[Ints, ...],
    loads: _Loads,
    target: Target,
) -> Ints:
    """Ticks [6, n] of output stage, ports and memories from the first chunk of a block of pixels to the next one's."""
    rows, pixels = (np.stack([axis.full, axis.last]) for axis in (layer.rows, layer.pixels))
    area = (rows[:, None] * pixels[None])[before]
    n_c, whole = layer.channels.count, np.maximum(layer.rows.extent * layer.pixels.extent, 1)
    first = _first(chunks)
    read = (chunks.count - 1) * chunks.input[0] + chunks.input[1]
    read = ((n_c - 1) * read[:, :, _FULL] + read[:, :, _LAST])[before]
    written, memory = flow.output[0] * area // whole, flow.output[1]
    on_read_port = (memory != Memory.SRAM) | target.board.sram_shared_port
    amounts = (
        (read + first[0][(*after, _FULL)] - first[0][(*before, _FULL)], flow.input[1]),
        (flow.weights[0] + first[1][(*after, _FULL)] - first[1][(*before, _FULL)], flow.weights[1]),
        (flow.residual[0] * area // whole, flow.residual[1]),
        (np.where(on_read_port, written, 0), memory),
    )
    result = _at_rate(area * layer.channels.extent, target.costs.output_stage)
    write_rate = max(target.board.sram_write_bytes_per_cycle, 1)
    result = np.maximum(result, np.where(on_read_port, 0, written * TICKS // write_rate))
    for source in (Memory.FLASH, Memory.SRAM, Memory.DRAM):
        total = sum((np.where(where == source, count, 0) for count, where in amounts), np.zeros_like(area))
        result = np.maximum(result, total * TICKS // loads.rates[source])
    return result


def _first(chunks: _Chunks) -> list[Ints]:
    """Input and weights of the first chunk of each kind of block."""
    return [np.where(chunks.count > 1, pair[0], pair[1]) for pair in (chunks.input, chunks.weights)]


def _at_rate(elements: Ints, rate: Rate) -> Ints:
    return np.asarray(elements * (TICKS * rate.denominator) // rate.numerator)
