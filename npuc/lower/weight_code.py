"""Coding of weights: chooses a layer's code table and writes its streams (isa/weight_codec.py says what they mean).

The table is the cheapest path through the values: a token of 2^e values costs its own bits in the table and, for each
of its weights, e bits and the logarithm of its probability. All costs are integers, so that tables do not depend on
the machine's floating point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from isa.code_table import (
    CODEC,
    CODEC_BITS,
    FIRST_BITS,
    GOLOMB_ORDER,
    LANES,
    MAX_TABLE_BYTES,
    STATE_BITS,
    STATES,
    TABLE_UNIT_BYTES,
    WIDTH_BITS,
    WORD_BYTES,
    Token,
)
from isa.timing.compiled import compiled
from isa.weight_codec import states_by_token

Ints = npt.NDArray[np.int64]

MAX_CODED_WORDS = (1 << 16) - 1
"""What the issue word's field `coded_words` can say."""

_UNIT = 1 << 10
"""Costs are in 1/1024 bit."""

_LOG2 = (0, *(round(_UNIT * math.log2(k)) for k in range(1, STATES + 1)))
FAR = 1 << 62
_LOG2_E = round(_UNIT * math.log2(math.e))


@dataclass(frozen=True)
class Piece:
    """Stored weights of a range of output channels; `coded_words` is the field of the issue word, 0 when raw."""

    data: bytes
    coded_words: int = 0


@dataclass(frozen=True)
class CodedWeights:
    """A layer's code table, empty when no piece is coded, and its pieces in the order of the cuts."""

    table: bytes
    pieces: tuple[Piece, ...]

    @property
    def n_bytes(self) -> int:
        """Stored bytes, table included."""
        return len(self.table) + sum(len(piece.data) for piece in self.pieces)


def encode_pieces(weights: bytes, cuts: Sequence[tuple[int, int]]) -> CodedWeights:
    """Code bytes [start, stop) of `weights` for each of `cuts`; never more bytes than raw.

    One table serves all pieces. A piece that coding does not shorten stays raw, and so do all when the table costs more
    than it saves.
    """
    data = np.frombuffer(weights, np.int8)
    raw = raw_pieces(weights, cuts)
    counts = sum((_count(data[start:stop]) for start, stop in cuts), np.zeros(256, np.int64))
    if not counts.any():
        return raw
    tokens = choose_tokens(tuple(counts.tolist()))
    streams = (_encode(data[start:stop], tokens) for start, stop in cuts)
    coded = CodedWeights(pack_table(tokens), tuple(map(_shorter, raw.pieces, streams)))
    return coded if coded.n_bytes < raw.n_bytes else raw


def _count(weights: npt.NDArray[np.int8]) -> Ints:
    return np.bincount(weights.astype(np.int64) + 128, minlength=256)


def raw_pieces(weights: bytes, cuts: Sequence[tuple[int, int]]) -> CodedWeights:
    """Bytes [start, stop) of `weights` for each of `cuts`, as they are."""
    return CodedWeights(b"", tuple(Piece(weights[start:stop]) for start, stop in cuts))


def _shorter(raw: Piece, stream: bytes) -> Piece:
    words = len(stream) // WORD_BYTES
    return Piece(stream, words) if len(stream) < len(raw.data) and words <= MAX_CODED_WORDS else raw


@lru_cache(maxsize=4096)
def choose_tokens(counts: tuple[int, ...]) -> tuple[Token, ...]:
    """Tokens of the cheapest table for `counts` [256] weights of value index - 128, one at least.

    They do not depend on how the weights are cut, so that a layer whose cuts change asks for the same ones again.
    """
    token_bits = 0
    while True:
        ranges = _cheapest_ranges(counts, token_bits)
        frequencies = _frequencies([sum(counts[first : first + (1 << e)]) for first, e in ranges])
        tokens = tuple(Token(first - 128, e, n) for (first, e), n in zip(ranges, frequencies, strict=True))
        if len(pack_table(tokens)) <= MAX_TABLE_BYTES:
            return tokens
        token_bits += 4


def _cheapest_ranges(counts: Sequence[int], token_bits: int) -> list[tuple[int, int]]:
    """Ranges (index of the first value, log2 of the length) that cover all weights; a token costs extra token_bits."""
    below = np.array([0, *np.cumsum(counts).tolist()], np.int64)
    start = next(i for i, n in enumerate(counts) if n)
    stop = 256 - next(i for i, n in enumerate(reversed(counts)) if n)
    best = np.full(257, FAR, np.int64)
    step = np.zeros((257, 2), np.int64)
    _relax(below, start, stop, token_bits, np.array(_LOG2, np.int64), best, step)
    ranges, at = [], min(range(stop, 257), key=best.tolist().__getitem__)
    while at > start:
        at, extra_bits = step[at].tolist()
        ranges.append((at, extra_bits))
    return ranges[::-1]


@compiled
def _relax(below: Ints, start: int, stop: int, token_bits: int, log2: Ints, best: Ints, step: Ints) -> None:
    """Cheapest costs `best` of covering the values from `start` up to each, and the last token that does: the value
    where it starts and its extra bits.

    A token costs its own bits in the table and those of its n weights. Its frequency is taken from the others': a share
    s of all states costs the total about s log2(e) bits a weight.
    """
    total = below[256]
    best[start] = 0
    for first in range(start, stop):
        for extra_bits in range(8):
            end = first + (1 << extra_bits)
            if end > 256:
                break
            n = below[end] - below[first]
            frequency = max((2 * n * STATES + total) // (2 * total), 1) if n else 0
            golomb, prefixed = 1 + GOLOMB_ORDER, (frequency >> GOLOMB_ORDER) + 1
            while prefixed > 1:
                golomb, prefixed = golomb + 2, prefixed >> 1
            data = n * (_UNIT * (STATE_BITS + extra_bits) - log2[frequency]) + total * frequency * _LOG2_E // STATES
            cost = best[first] + _UNIT * (token_bits + WIDTH_BITS + golomb) + data
            if cost < best[end]:
                best[end], step[end, 0], step[end, 1] = cost, first, extra_bits


def _share(n: int, total: int) -> int:
    return max((2 * n * STATES + total) // (2 * total), 1) if n else 0


def _frequencies(counts: Sequence[int]) -> list[int]:
    """Frequencies that sum to STATES, none zero where weights occur: rounded, then moved where it costs the least."""
    total = sum(counts)
    found = [_share(n, total) for n in counts]
    excess = sum(found) - STATES
    step = -1 if excess > 0 else 1
    for _ in range(abs(excess)):
        able = [i for i, n in enumerate(counts) if n and found[i] + step > 0]
        gains = {i: counts[i] * (_LOG2[found[i] + step] - _LOG2[found[i]]) for i in able}
        found[max(able, key=lambda i: (gains[i], -i))] += step
    return found


def _golomb_prefix(value: int) -> int:
    return ((value >> GOLOMB_ORDER) + 1).bit_length() - 1


def pack_table(tokens: Sequence[Token]) -> bytes:
    """The stored code table of adjacent tokens."""
    fields = [(CODEC, CODEC_BITS), (tokens[0].first + 128, FIRST_BITS)]
    for token in tokens:
        prefix = _golomb_prefix(token.frequency)
        fields += [(token.extra_bits, WIDTH_BITS), ((1 << prefix) - 1, prefix + 1)]
        fields.append((token.frequency - (((1 << prefix) - 1) << GOLOMB_ORDER), prefix + GOLOMB_ORDER))
    return _pack_bits(fields, TABLE_UNIT_BYTES)


def _pack_bits(fields: Iterable[tuple[int, int]], unit_bytes: int) -> bytes:
    """(value, width) fields, the first in the least significant bits, zeros up to a multiple of the unit."""
    value, at = 0, 0
    for field, width in fields:
        value |= field << at
        at += width
    return value.to_bytes(-(-at // (8 * unit_bytes)) * unit_bytes, "little")


def _encode(weights: npt.NDArray[np.int8], tokens: Sequence[Token]) -> bytes:
    """The stream of one piece."""
    frequency = np.array([token.frequency for token in tokens], np.int64)
    extra_bits = np.array([token.extra_bits for token in tokens], np.int64)
    lengths = 1 << extra_bits
    lowest = tokens[0].first
    of_value = np.repeat(np.arange(len(tokens)), lengths)
    offsets = weights.astype(np.int64) - lowest
    token = of_value[offsets]
    rest = offsets - (np.cumsum(lengths) - lengths)[token]
    widths = np.empty((2, len(weights)), np.int64)
    states = np.zeros(LANES, np.int64)
    fields = np.empty_like(widths)
    fields[0], widths[0] = rest, extra_bits[token]
    slots = np.cumsum(frequency) - frequency
    _walk_states(token, frequency, slots, states_by_token(frequency), states, fields[1], widths[1])
    used = min(LANES, len(weights))
    n_bits = STATE_BITS * used + int(widths.sum())
    stream = np.zeros(-(-n_bits // (8 * WORD_BYTES)) * WORD_BYTES, np.uint8)
    _write(states[:used], fields, widths, stream)
    return stream.tobytes()


@compiled
def _walk_states(
    token: Ints, frequency: Ints, slots: Ints, by_token: Ints, states: Ints, fields: Ints, widths: Ints
) -> None:
    """From the last weight back: the state before each, and the bits that lead from it to its machine's next one."""
    for i in range(len(token) - 1, -1, -1):
        n = frequency[token[i]]
        number, width = n, 0
        if i + LANES < len(token):
            number = states[i % LANES] + STATES
            while number >= 2 * n:
                number >>= 1
                width += 1
            fields[i] = states[i % LANES] + STATES - (number << width)
        else:
            fields[i] = 0
        widths[i] = width
        states[i % LANES] = by_token[slots[token[i]] + number - n]


@compiled
def _write(states: Ints, fields: Ints, widths: Ints, stream: npt.NDArray[np.uint8]) -> None:
    """Initial states, then of each weight the bits of its value and those of its state, into the zeroed `stream`."""
    pending, n_pending, at = 0, 0, 0
    for i in range(len(states) + fields.shape[1]):
        if i < len(states):
            value, width = states[i], STATE_BITS
        else:
            j = i - len(states)
            value, width = fields[0, j] | fields[1, j] << widths[0, j], widths[0, j] + widths[1, j]
        pending |= value << n_pending
        n_pending += width
        while n_pending >= 8:
            stream[at] = pending & 255
            pending >>= 8
            n_pending -= 8
            at += 1
    if n_pending:
        stream[at] = pending
