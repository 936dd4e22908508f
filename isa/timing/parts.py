"""The parts of MAC instructions, walked through one after the other: when the last one begins, and what is left then.

Kernels on int64, compiled where numba is installed; `row` describes an instruction, the constants of `part_table`
(`SCALE_RECORD` and so on) name its columns.
Times are in ticks of 1/1024 cycle from the beginning of the body. The rules are those of docs/timing.md.
"""

from __future__ import annotations

from isa.timing.compiled import compiled
from isa.timing.geometry import Ints
from isa.timing.part_table import (
    AXIS,
    BASE,
    BLOCK,
    BLOCK_C,
    C0,
    CHANNEL_BLOCK,
    CHANNELS,
    COMPUTE,
    DECODE_TICKS,
    EDGE,
    ELEMENT,
    EXTENT,
    FIRST,
    FROM,
    INPUT,
    IS_EVEN,
    LAST_PIXEL,
    LAST_ROW,
    LIMIT,
    LOAD_BYTES,
    OPENS_UNIT,
    OUT_FROM,
    OUT_TO,
    OUTPUT,
    PAD,
    PART,
    PIXEL,
    PIXELS,
    RAGGED,
    RATE,
    REACH,
    RESIDUAL,
    ROW,
    ROWS,
    SCALE_BYTES,
    SCALE_STREAM,
    SHARE,
    SHARED,
    SHARES,
    STAGE,
    STAGE_PER,
    STREAM,
    STREAMS,
    STRIDE,
    TABLE,
    TABLE_STREAM,
    TICKS,
    TO,
    USE_RESIDUAL,
    WEIGHT_STREAM,
    C,
)

PACE, LAST_COMPUTE, LAST_PENDING, LAST_VALUES, LAST_BYTES, FIRST_INPUT, FIRST_WEIGHTS = range(7)
INPUT_BYTES, WEIGHT_LOADS, RESIDUAL_BYTES, OUTPUT_BYTES, WAITS = range(7, 12)
AT_HALF, RESULT = WAITS + STREAMS, WAITS + 2 * STREAMS
"""Ticks until the last part begins, of that part, and of output that waits then; its outputs and their bytes; bytes of
the first load; bytes of all parts; by stream: ticks for which the array waits for it, and how many more it would at
half the rate."""

(END, INPUT_END, CHUNK_BEGUN, UNIT_BEGUN, UNIT_GATE, DECODED, SCALED, RESIDUAL_BEGUN, RESIDUAL_FROM, RESIDUAL_TO,
 IS_HELD, HELD, HELD_FROM, OUT, OUT_1, OUT_2, WINDOW_FROM, WINDOW_TO, WINDOW_BUSY, BLOCK_BYTES) = range(20)  # fmt: skip
BEGUN, FREE = 20, 21
LOADED, SPAN = FREE + STREAMS, FREE + 2 * STREAMS
LINES, SPREAD = SPAN + 10, SPAN + 12
GAPS = 13 + 2 * STREAMS
BEFORE_BLOCK = SPREAD + 16
BEFORE_ROW, NOW = BEFORE_BLOCK + GAPS + RESULT + 1, BEFORE_BLOCK + 2 * (GAPS + RESULT + 1)
STATE = NOW + GAPS
"""State: ends and gates; when each stream is free; intervals of rows and pixels, how many lie in the tensor, and by
residue modulo 8; then how far times are apart, which is all that matters for what follows, with results and time."""


@compiled
def walk(row: Ints, table: Ints, n: int, s: Ints, result: Ints) -> None:
    """One instruction from its first part to its last. Blocks inside the tensor that begin as the one before them did
    end as it did: they are not walked through."""
    y = 0
    while y < row[ROWS + EXTENT]:
        _remember(row, s, BEFORE_ROW, result)
        height = min(row[ROWS + BLOCK], row[ROWS + EXTENT] - y)
        x = 0
        while x < row[PIXELS + EXTENT]:
            _remember(row, s, BEFORE_BLOCK, result)
            width = min(row[PIXELS + BLOCK], row[PIXELS + EXTENT] - x)
            _walk_block(row, table, s, n, y, x, height, width, result)
            x += width
            if row[IS_EVEN] & 1:
                x += row[PIXELS + BLOCK] * _skip(row, s, BEFORE_BLOCK, PIXELS, x, result)
        y += height
        if row[IS_EVEN] & 2:
            y += row[ROWS + BLOCK] * _skip(row, s, BEFORE_ROW, ROWS, y, result)


@compiled
def _walk_block(row: Ints, table: Ints, s: Ints, n: int, y: int, x: int, height: int, width: int, result: Ints) -> None:
    is_last_row, is_last = y + height == row[ROWS + EXTENT], x + width == row[PIXELS + EXTENT]
    kind = COMPUTE + 4 * is_last_row + 2 * is_last
    for p in range(0, n * PART, PART):
        is_first = y + x + p == 0
        _load_part(row, table, s, p, y, x, is_first, result)
        is_final = is_last_row and is_last and p == (n - 1) * PART
        _compute_part(row, table, s, p, y, x, kind, is_final, result)


@compiled
def _remember(row: Ints, s: Ints, at: int, result: Ints) -> None:
    _measure_gaps(row, s, at)
    for i in range(RESULT):
        s[at + GAPS + i] = result[i]
    s[at + GAPS + RESULT] = s[END]


@compiled
def _measure_gaps(row: Ints, s: Ints, at: int) -> None:
    """Times from the array's last end; those that are past count as that."""
    now = s[END]
    oldest = min(s[CHUNK_BEGUN], s[UNIT_BEGUN], s[UNIT_GATE], s[OUT_2])
    s[at], s[at + 1], s[at + 2] = s[CHUNK_BEGUN] - now, s[UNIT_BEGUN] - now, s[UNIT_GATE] - now
    s[at + 3], s[at + 4] = max(s[INPUT_END] - now, 0), max(s[DECODED] - now, 0)
    s[at + 5], s[at + 6], s[at + 7] = s[OUT] - now, s[OUT_1] - now, s[OUT_2] - now
    s[at + 8] = max(s[SCALED] - s[OUT], 0)
    is_open = row[SHARED] >= 0 and s[WINDOW_TO] > oldest
    s[at + 9] = s[WINDOW_FROM] - now if is_open else 0
    s[at + 10] = s[WINDOW_TO] - now if is_open else 0
    s[at + 11] = s[WINDOW_BUSY] if is_open else 0
    s[at + 12] = s[BEGUN] - now
    for stream in range(STREAMS):
        s[at + 13 + stream] = max(s[FREE + stream], oldest) - now
        s[at + 13 + STREAMS + stream] = s[LOADED + stream]


@compiled
def _skip(row: Ints, s: Ints, before: int, axis: int, at: int, result: Ints) -> int:
    """Blocks (or rows of blocks) from `at` on that go like the last one, because it began as they begin."""
    block, stride = row[axis + BLOCK], row[axis + STRIDE]
    first = (row[axis + FIRST] + at - block) * stride - row[axis + PAD]
    inside = (row[axis + LIMIT] - first - row[axis + REACH] - (block - 1) * stride) // (block * stride)
    count = min(inside, (row[axis + EXTENT] - at - 1) // block)
    if first < 0 or at <= block or count <= 0:
        return 0
    _measure_gaps(row, s, NOW)
    for i in range(GAPS):
        if s[NOW + i] != s[before + i]:
            return 0
    later = count * (s[END] - s[before + GAPS + RESULT])
    for i in range(END, WINDOW_TO + 1):
        if i != IS_HELD and i != HELD:
            s[i] += later
    s[BEGUN] += later
    for stream in range(STREAMS):
        s[FREE + stream] += later
    for i in range(INPUT_BYTES, RESULT):
        result[i] += count * (result[i] - s[before + GAPS + i])
    return int(count)


@compiled
def _ticks(row: Ints, stream: int, n_bytes: int) -> int:
    return int(n_bytes * TICKS // max(row[RATE + stream], 1))


@compiled
def _aim(row: Ints, s: Ints, axis: int, at: int, size: int) -> None:
    """The intervals of input rows (or pixels) of a block, and how many positions lie in the tensor."""
    a, stride, reach = axis * AXIS, row[axis * AXIS + STRIDE], row[axis * AXIS + REACH]
    span = SPAN + 5 * axis
    s[span] = (row[a + FIRST] + at) * stride - row[a + PAD]
    s[span + 2], s[span + 4] = stride, row[a + LIMIT]
    s[span + 1], s[span + 3] = (size, reach) if stride > reach else (1, (size - 1) * stride + reach)
    _count(s, axis)


@compiled
def _aim_plain(row: Ints, s: Ints, axis: int, at: int, size: int) -> None:
    """The same of output rows (or pixels)."""
    span = SPAN + 5 * axis
    first = row[axis * AXIS + FIRST] + at
    s[span], s[span + 1], s[span + 2], s[span + 3], s[span + 4] = first, 1, 1, size, first + size
    s[LINES + axis] = size


@compiled
def _count(s: Ints, axis: int) -> None:
    span = SPAN + 5 * axis
    count = 0
    for i in range(s[span + 1]):
        low = s[span] + i * s[span + 2]
        count += max(min(low + s[span + 3], s[span + 4]) - max(low, 0), 0)
    s[LINES + axis] = count


@compiled
def _spread(s: Ints, axis: int, stride: int) -> None:
    """Positions by what their distance from the first is modulo 8."""
    span, spread = SPAN + 5 * axis, SPREAD + 8 * axis
    for residue in range(8):
        s[spread + residue] = 0
    for i in range(s[span + 1]):
        low = s[span] + i * s[span + 2]
        for position in range(max(low, 0), min(low + s[span + 3], s[span + 4])):
            s[spread + (position * stride & 7)] += 1


@compiled
def _tensor_bytes(row: Ints, s: Ints, o: int, start: int, stop: int) -> int:
    """8 for each word of channels [start, stop) at the positions of the span."""
    words, c, c0 = 0, start, row[o + C0]
    while c < stop:
        end = min(stop, (c // c0 + 1) * c0)
        is_ragged = c >= row[o + RAGGED]
        pixel = row[o + LAST_PIXEL] if is_ragged and row[o + LAST_PIXEL] > 0 else row[o + PIXEL]
        line = row[o + LAST_ROW] if is_ragged and row[o + LAST_ROW] > 0 else row[o + ROW]
        address = row[o + BASE] + c // c0 * row[o + CHANNEL_BLOCK] + c % c0 * row[o + ELEMENT]
        length = (end - c) * row[o + ELEMENT]
        if (pixel | line) & 7 == 0 or length & 7 == 1:
            words += s[LINES] * s[LINES + 1] * (((address & 7) + length + 7) >> 3)
        else:
            _spread(s, 0, line)
            _spread(s, 1, pixel)
            for i in range(8):
                for j in range(8):
                    n = s[SPREAD + i] * s[SPREAD + 8 + j]
                    words += n * (((address + i + j & 7) + length + 7) >> 3)
        c = end
    return int(8 * words)


@compiled
def _access_bytes(row: Ints, s: Ints, o: int, y: int, x: int, start: int, stop: int) -> int:
    """8 for each word of one position of the first channel block in [start, stop)."""
    c0 = row[o + C0]
    is_ragged = start >= row[o + RAGGED]
    pixel = row[o + LAST_PIXEL] if is_ragged and row[o + LAST_PIXEL] > 0 else row[o + PIXEL]
    line = row[o + LAST_ROW] if is_ragged and row[o + LAST_ROW] > 0 else row[o + ROW]
    address = row[o + BASE] + start // c0 * row[o + CHANNEL_BLOCK] + start % c0 * row[o + ELEMENT]
    length = (min(stop, (start // c0 + 1) * c0) - start) * row[o + ELEMENT]
    return int(8 * (((address + y * line + x * pixel & 7) + length + 7) >> 3))


@compiled
def _load(row: Ints, s: Ints, stream: int, start: int, n_bytes: int) -> int:
    """When a load has come that may begin at `start`: behind those before it, slowed by output through its port."""
    begin, ticks = max(s[FREE + stream], start), _ticks(row, stream, n_bytes)
    s[LOADED + stream] += ticks
    end = begin + ticks
    if stream == row[SHARED] and begin < s[WINDOW_TO] and ticks > 0:
        length = s[WINDOW_TO] - s[WINDOW_FROM]
        idle = length - s[WINDOW_BUSY]
        before = min(max(s[WINDOW_FROM] - begin, 0), ticks)
        begin, ticks = begin + before, ticks - before
        progress = (s[WINDOW_TO] - begin) * idle // length
        if ticks > progress:
            end = s[WINDOW_TO] + ticks - progress
        elif ticks > 0:
            end = begin + ticks * length // idle
    s[FREE + stream] = end
    return int(end)


@compiled
def _load_part(row: Ints, table: Ints, s: Ints, p: int, y: int, x: int, is_first: bool, result: Ints) -> None:
    """Loads of a part, in their order. Output is held until the scales and the residual operand of its block come."""
    if table[p + EDGE] & 1:
        s[IS_HELD] = row[USE_RESIDUAL] or y + x == 0
    if table[p + TO] > table[p + FROM]:
        height = min(row[ROWS + BLOCK], row[ROWS + EXTENT] - y)
        width = min(row[PIXELS + BLOCK], row[PIXELS + EXTENT] - x)
        _aim(row, s, 0, y, height)
        _aim(row, s, 1, x, width)
        n_bytes = _tensor_bytes(row, s, INPUT, table[p + FROM], table[p + TO])
        result[INPUT_BYTES] += n_bytes
        if is_first:
            result[FIRST_INPUT] = n_bytes
        else:
            s[INPUT_END] = _load(row, s, row[INPUT + STREAM], s[CHUNK_BEGUN], n_bytes)
    result[WEIGHT_LOADS] += table[p + LOAD_BYTES]
    if table[p + OPENS_UNIT]:
        s[UNIT_GATE] = s[UNIT_BEGUN]
    if is_first:
        result[FIRST_WEIGHTS] = table[p + LOAD_BYTES]
    else:
        end = _load(row, s, row[WEIGHT_STREAM], s[UNIT_GATE], table[p + LOAD_BYTES])
        s[DECODED] = max(end, max(s[DECODED], s[UNIT_GATE]) + table[p + DECODE_TICKS])
    if y + x == 0 and table[p + SCALE_BYTES] > 0:
        s[IS_HELD] = row[USE_RESIDUAL]
        s[SCALED] = _load(row, s, row[SCALE_STREAM], 0, table[p + SCALE_BYTES])
        if row[TABLE] and table[p + OUT_FROM] < row[BLOCK_C]:
            s[SCALED] = max(s[SCALED], _load(row, s, row[TABLE_STREAM], 0, row[TABLE]))


@compiled
def _compute_part(
    row: Ints, table: Ints, s: Ints, p: int, y: int, x: int, kind: int, is_final: bool, result: Ints
) -> None:
    """When the array begins a part and ends it, and what the output stage makes of it."""
    begin = max(s[END], s[DECODED])
    if table[p + TO] > table[p + FROM]:
        begin = max(begin, s[INPUT_END])
    if table[p + EDGE] & 1:
        begin = max(begin, s[OUT_2])
    makes = table[p + OUT_TO] > table[p + OUT_FROM]
    if makes:
        _aim_plain(row, s, 0, y, min(row[ROWS + BLOCK], row[ROWS + EXTENT] - y))
        _aim_plain(row, s, 1, x, min(row[PIXELS + BLOCK], row[PIXELS + EXTENT] - x))
    if row[USE_RESIDUAL] and table[p + EDGE] & 2:
        _load_residual(row, s, table[p + OUT_FROM] // row[BLOCK_C] * row[BLOCK_C], table[p + OUT_TO], result)
    if is_final:
        for stream in range(STREAMS):
            begin = max(begin, s[FREE + stream])
    if begin > s[END]:
        _blame(row, s, begin, result)
    if table[p + OUT_FROM] // row[BLOCK_C] == (row[CHANNELS] - 1) // row[BLOCK_C]:
        kind += 1
    s[BEGUN] = begin
    s[END] = begin + row[kind] * TICKS * table[p + SHARE] // table[p + SHARES]
    if table[p + TO] > table[p + FROM]:
        _strain(s, begin - s[CHUNK_BEGUN], result)
        s[CHUNK_BEGUN] = begin
    if table[p + OPENS_UNIT]:
        s[UNIT_BEGUN] = begin
    if is_final:
        result[PACE], result[LAST_COMPUTE] = begin, s[END] - begin
        result[LAST_PENDING] = max(_output_from(row, s) - begin, 0)
    if makes:
        _make_output(row, table, s, p, begin, result)
    if table[p + EDGE] & 2:
        s[OUT_1], s[OUT_2] = s[OUT], s[OUT_1]


@compiled
def _strain(s: Ints, time: int, result: Ints) -> None:
    """A chunk is through: what its loads would cost at half the rate."""
    for stream in range(STREAMS):
        result[AT_HALF + stream] += max(2 * s[LOADED + stream] - time, 0)
        s[LOADED + stream] = 0


@compiled
def _blame(row: Ints, s: Ints, begin: int, result: Ints) -> None:
    """All the time since the part before began goes to the stream that a part waits for."""
    blamed = -1
    for stream in range(STREAMS - 1):
        if s[FREE + stream] >= begin:
            blamed = stream
    if s[INPUT_END] == begin:
        blamed = row[INPUT + STREAM]
    elif s[DECODED] == begin:
        blamed = row[WEIGHT_STREAM]
    elif s[OUT_2] == begin:
        blamed = row[OUTPUT + STREAM]
    if blamed >= 0:
        result[WAITS + blamed] += begin - s[BEGUN]


@compiled
def _make_output(row: Ints, table: Ints, s: Ints, p: int, begin: int, result: Ints) -> None:
    """Output flows as the array makes it; with a residual operand when that has come, for all groups of the block."""
    stream, first_c = row[OUTPUT + STREAM], table[p + OUT_FROM] // row[BLOCK_C] * row[BLOCK_C]
    size = min(row[BLOCK_C], row[CHANNELS] - first_c)
    if table[p + OUT_FROM] == first_c:
        s[BLOCK_BYTES] = _tensor_bytes(row, s, OUTPUT, row[C] + first_c, row[C] + first_c + size)
        result[OUTPUT_BYTES] += s[BLOCK_BYTES]
    c0, before, after = row[OUTPUT + C0], table[p + OUT_FROM] - first_c, table[p + OUT_TO] - first_c
    if (row[C] + table[p + OUT_FROM]) % c0 == 0 and ((row[C] + table[p + OUT_TO]) % c0 == 0 or after == size):
        n_bytes = _tensor_bytes(row, s, OUTPUT, row[C] + table[p + OUT_FROM], row[C] + table[p + OUT_TO])
    else:
        words = s[BLOCK_BYTES] // 8
        n_bytes = 8 * (words * after // size - words * before // size)
    values = s[LINES] * s[LINES + 1] * (table[p + OUT_TO] - table[p + OUT_FROM])
    result[LAST_BYTES], result[LAST_VALUES] = n_bytes, values
    written = _ticks(row, stream, n_bytes)
    made = max(values * TICKS * row[STAGE_PER] // row[STAGE], written)
    if s[IS_HELD] and table[p + EDGE] & 2 == 0:
        if s[HELD] == 0:
            s[HELD_FROM] = begin
        s[HELD] += made
        return
    first = _output_from(row, s)
    out = max(first, begin) + made
    if row[USE_RESIDUAL]:
        out = max(out, _with_residual(row, s, row[C] + first_c, row[C] + first_c + size))
    s[HELD] = 0
    s[OUT] = max(out, s[END])
    if row[SHARED] >= 0:
        if max(first, begin) > s[WINDOW_TO]:
            s[WINDOW_FROM], s[WINDOW_BUSY] = max(first, begin), 0
        s[LOADED + row[SHARED]] += written
        s[WINDOW_TO] = s[OUT]
        s[WINDOW_BUSY] += written


@compiled
def _with_residual(row: Ints, s: Ints, start: int, stop: int) -> int:
    """When a block's outputs are through that follow their residual operand, one after the other."""
    come, through, c0 = s[RESIDUAL_BEGUN], 0, row[OUTPUT + C0]
    c = start
    while c < stop:
        end = min(stop, (c // c0 + 1) * c0)
        for y in range(s[SPAN], s[SPAN] + s[LINES]):
            for x in range(s[SPAN + 5], s[SPAN + 5] + s[LINES + 1]):
                come += _ticks(row, row[RESIDUAL + STREAM], _access_bytes(row, s, RESIDUAL, y, x, c, end))
                n_bytes = _access_bytes(row, s, OUTPUT, y, x, c, end)
                through = max(through, come) + _ticks(row, row[OUTPUT + STREAM], n_bytes)
        c = end
    return int(through)


@compiled
def _output_from(row: Ints, s: Ints) -> int:
    """When output that was held until now is through, or what came before it."""
    first = max(s[OUT], s[SCALED])
    if s[HELD] > 0:
        first = max(first, s[HELD_FROM])
    if row[USE_RESIDUAL]:
        first = max(first, s[RESIDUAL_FROM])
    return int(first + s[HELD])


@compiled
def _load_residual(row: Ints, s: Ints, start: int, stop: int, result: Ints) -> None:
    n_bytes = _tensor_bytes(row, s, RESIDUAL, row[C] + start, row[C] + stop)
    result[RESIDUAL_BYTES] += n_bytes
    stream = row[RESIDUAL + STREAM]
    s[RESIDUAL_TO] = _load(row, s, stream, s[OUT_2], n_bytes)
    n_first = _access_bytes(row, s, RESIDUAL, s[SPAN], s[SPAN + 5], row[C] + start, row[C] + stop)
    s[RESIDUAL_BEGUN] = s[RESIDUAL_TO] - _ticks(row, stream, n_bytes)
    s[RESIDUAL_FROM] = s[RESIDUAL_TO] - _ticks(row, stream, n_bytes - n_first)
