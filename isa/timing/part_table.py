"""The parts of a block of pixels of a MAC instruction: their loads, their shares of the array's time, what they make.

Kernels on int64, compiled where numba is installed; `row` describes an instruction, constants name its columns.
"""

from __future__ import annotations

from isa.timing.compiled import compiled
from isa.timing.geometry import Ints

TICKS = 1024
STREAMS = 4
"""Flash, the read port (or the one port) of SRAM, DRAM: as `Memory`; and the write port."""
READ_PORT, WRITE_PORT = 1, 3

AXIS = 7
FIRST, EXTENT, BLOCK, STRIDE, REACH, PAD, LIMIT = range(AXIS)
"""Columns of rows and of pixels; REACH is the length of a window."""
TENSOR = 10
BASE, PIXEL, ROW, CHANNEL_BLOCK, LAST_PIXEL, LAST_ROW, ELEMENT, C0, RAGGED, STREAM = range(TENSOR)
"""Columns of a tensor; RAGGED: first channel of the ragged last block."""

ROWS, PIXELS = 0, AXIS
C, CHANNELS, BLOCK_C, K, K_CHANNELS, IS_DEPTHWISE, IS_ONE_CHUNK, TAPS, LANES, HALF = range(14, 24)
WEIGHTS, WEIGHT_STREAM, CODED, DECODER, DECODER_PER, STAGE, STAGE_PER = range(24, 31)
"""CODED: bytes of the stream; rates of decoder and output stage as numerator and denominator."""
SCALES, SCALE_STREAM, SCALE_RECORD, TABLE, TABLE_STREAM, USE_RESIDUAL, SHARED, IS_EVEN = range(31, 39)
"""SCALE_RECORD: bytes of a channel; TABLE: bytes; SHARED: the stream of reads that the output goes through, -1: none;
IS_EVEN: 1: one block of pixels further addresses are the same modulo 8, 2: one row of blocks further."""
COMPUTE = 39
"""Datapath cycles of a block: (full, last) on rows, pixels and channels."""
RATE = COMPUTE + 8
"""Bytes a cycle of each stream."""
INPUT = RATE + STREAMS
OUTPUT, RESIDUAL = INPUT + TENSOR, INPUT + 2 * TENSOR
COLUMNS = INPUT + 3 * TENSOR

PART = 12
LOAD_BYTES, WEIGHT_BYTES, DECODE_TICKS, SHARE, SHARES, OPENS_UNIT, FROM, TO, OUT_FROM, OUT_TO, SCALE_BYTES = range(11)
EDGE = 11
"""A part of a block of pixels: loads; SHARE of SHARES of the block's cycles; input channels (none: those of the part
before) and output channels (none: not finished yet) from the region's first; EDGE: 1 begins, 2 ends its block."""


@compiled
def fill(row: Ints, table: Ints) -> int:
    """The parts of a block of pixels; how many."""
    n, c0 = 0, row[INPUT + C0]
    for c in range(0, row[CHANNELS], row[BLOCK_C]):
        size = min(row[BLOCK_C], row[CHANNELS] - c)
        start = row[C] + c if row[IS_DEPTHWISE] else row[K]
        stop = start + (size if row[IS_DEPTHWISE] else row[K_CHANNELS])
        first, at = n, start
        while at < stop:
            end = stop if row[IS_ONE_CHUNK] else min(stop, (at // c0 + 1) * c0)
            n = _fill_chunk(row, table, n, first, c, size, at, end, stop)
            if at == start:
                before = row[SCALE_RECORD] * c
                n_bytes = _run_bytes(row[SCALE_STREAM], row[SCALES], before, before + row[SCALE_RECORD] * size)
                table[(n - 1) * PART + SCALE_BYTES] = n_bytes
            at = end
        shares = 0
        for p in range(first * PART, n * PART, PART):
            shares += table[p + SHARE]
        for p in range(first * PART, n * PART, PART):
            table[p + SHARES] = shares
        table[first * PART + EDGE] += 1
        table[(n - 1) * PART + EDGE] += 2
    return n


@compiled
def _fill_chunk(row: Ints, table: Ints, n: int, first: int, c: int, size: int, at: int, end: int, stop: int) -> int:
    """The parts of input channels [at, end): groups one after the other, cut by taps where half the buffer is less."""
    is_depthwise, used = row[IS_DEPTHWISE], row[HALF]
    base = at - row[C] if is_depthwise else c
    groups = end - at if is_depthwise else size
    lanes = end - at if is_depthwise else row[LANES]
    for g in range(0, groups, lanes):
        width = min(lanes, groups - g)
        tap_weights = width * (1 if is_depthwise else end - at)
        at_once = min(max(row[HALF] // tap_weights, 1), row[TAPS])
        for tap in range(0, row[TAPS], at_once):
            taps = min(at_once, row[TAPS] - tap)
            p = n * PART
            is_opening = used + taps * tap_weights > row[HALF]
            used = taps * tap_weights + (0 if is_opening else used)
            makes = (is_depthwise or end == stop) and tap + taps == row[TAPS]
            table[p + OPENS_UNIT] = is_opening
            table[p + SHARE] = taps
            table[p + FROM], table[p + TO] = at, end if g + tap == 0 else at
            table[p + OUT_FROM], table[p + OUT_TO] = base + g, base + g + (width if makes else 0)
            table[p + WEIGHT_BYTES] = taps * tap_weights
            table[p + DECODE_TICKS] = 0
            if row[CODED]:
                table[p + DECODE_TICKS] = taps * tap_weights * TICKS * row[DECODER_PER] // row[DECODER]
            table[p + LOAD_BYTES] = _load_bytes(row, table, p, first * PART, c, at, end, g, width, tap, taps)
            table[p + SCALE_BYTES] = table[p + EDGE] = 0
            n += 1
    return n


@compiled
def _load_bytes(
    row: Ints, table: Ints, p: int, first: int, c: int, at: int, end: int, g: int, width: int, tap: int, taps: int
) -> int:
    """A block's weights are one run where a chunk has all input channels; else every tap of a group is one."""
    depth = 1 if row[IS_DEPTHWISE] else row[K_CHANNELS]
    is_run = row[IS_DEPTHWISE] or row[CODED] or end - at == depth
    address, stream = row[WEIGHTS] + c * row[TAPS] * depth, row[WEIGHT_STREAM]
    if is_run:
        before = 0
        for other in range(first, p, PART):
            before += table[other + WEIGHT_BYTES]
        after = before + table[p + WEIGHT_BYTES]
        if row[CODED]:
            total = row[CHANNELS] * row[TAPS] * depth
            block = c * row[TAPS] * depth
            address = row[WEIGHTS] + -(-row[CODED] * block // total)
            before = row[WEIGHTS] - address - (-row[CODED] * (block + before) // total)
            after = row[WEIGHTS] - address - (-row[CODED] * (block + after) // total)
        return int(_run_bytes(stream, address, before, after))
    n_bytes = 0
    for t in range(tap, tap + taps):
        begin = address + g * row[TAPS] * depth + (t * depth + at - row[K]) * width
        length = (end - at) * width
        n_bytes += 8 * (((begin & 7) + length + 7) >> 3) if stream == READ_PORT else length
    return int(n_bytes)


@compiled
def _run_bytes(stream: int, address: int, before: int, after: int) -> int:
    """Bytes [before, after) of a run that is read in order: 8 for each word of SRAM that has not come yet."""
    if stream != READ_PORT:
        return int(after - before)
    old = ((address & 7) + before + 7) >> 3 if before else 0
    new = ((address & 7) + after + 7) >> 3 if after else 0
    return int(8 * (new - old))
