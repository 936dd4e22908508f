"""The weight codec, normative side: what coded weights mean. docs/weight-codec.md has the rules in full and why.

A layer's *code table* cuts the values -128..127 into tokens: ranges of 2^e values of equal probability, each with a
frequency in 1/512. A *stream* is one piece of weights, coded by eight interleaved 512-state machines (tabled asymmetric
numeral systems) that share the table: weight i belongs to machine i mod 8. A machine's state names the token of its
next weight and how many bits lead to the state after it, so the positions of eight weights' bits are known before any
of them is read. Bits fill bytes from the least significant one; numbers are stored likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isa.errors import IsaError
from isa.timing.compiled import compiled

Ints = npt.NDArray[np.int64]

CODEC = 1
"""What the first four bits of a code table say; other values are reserved."""

LANES = 8
STATE_BITS = 9
STATES = 1 << STATE_BITS
SPREAD = 323
"""State s takes slot SPREAD x s mod STATES of the tokens laid end to end; about 5/8 of them apart, so that each token's
states lie evenly among all."""

TABLE_UNIT_BYTES = 16
MAX_TABLE_BYTES = 112
"""What the descriptor's three bits `code_table` can say."""

WORD_BYTES = 8
"""Unit of a stream's length."""

CODEC_BITS, FIRST_BITS, WIDTH_BITS, GOLOMB_ORDER = 4, 8, 3, 2
_MAX_PREFIX = STATE_BITS - GOLOMB_ORDER
_LOWEST, _HIGHEST = -128, 127


@dataclass(frozen=True)
class Token:
    """The 2^extra_bits values from `first` on, which share `frequency` / STATES of the probability; 0: none occurs."""

    first: int
    extra_bits: int
    frequency: int


@dataclass(frozen=True)
class StateTable:
    """What each state [STATES] means: a weight is `first` + the number in the next `extra_bits` bits, and the state
    after it is `following` + the number in the `state_bits` bits behind those.
    """

    first: Ints
    extra_bits: Ints
    state_bits: Ints
    following: Ints


class _BitReader:
    """Numbers from the bits of a code table."""

    def __init__(self, data: bytes) -> None:
        self._bits = int.from_bytes(data, "little")
        self._left = 8 * len(data)

    def take(self, n_bits: int) -> int:
        if n_bits > self._left:
            raise IsaError("code table ends inside a token", "store all of it")
        value = self._bits & ((1 << n_bits) - 1)
        self._bits >>= n_bits
        self._left -= n_bits
        return value

    def take_golomb(self) -> int:
        prefix = 0
        while self.take(1):
            prefix += 1
            if prefix > _MAX_PREFIX:
                raise IsaError(f"frequency of a token exceeds {STATES}")
        return (((1 << prefix) - 1) << GOLOMB_ORDER) + self.take(prefix + GOLOMB_ORDER)

    @property
    def rest(self) -> int:
        return self._bits


def parse_table(table: bytes) -> tuple[Token, ...]:
    """Tokens of a stored code table in the order of their values; IsaError when it is malformed."""
    if len(table) > MAX_TABLE_BYTES or len(table) % TABLE_UNIT_BYTES:
        raise IsaError(f"code table has {len(table)} bytes, allowed: multiples of 16 up to {MAX_TABLE_BYTES}")
    reader = _BitReader(table)
    codec = reader.take(CODEC_BITS)
    if codec != CODEC:
        raise IsaError(f"weight codec {codec}, known: {CODEC}")
    first, total, tokens = reader.take(FIRST_BITS) + _LOWEST, 0, []
    while total < STATES:
        token = Token(first, reader.take(WIDTH_BITS), reader.take_golomb())
        first, total = first + (1 << token.extra_bits), total + token.frequency
        if first - 1 > _HIGHEST:
            raise IsaError(f"a token reaches value {first - 1}, limit {_HIGHEST}")
        tokens.append(token)
    if total > STATES:
        raise IsaError(f"frequencies of the code table sum to {total}, allowed: {STATES}")
    if reader.rest:
        raise IsaError("bits behind the last token of the code table are not zero")
    return tuple(tokens)


def states_by_token(frequency: Ints) -> Ints:
    """The states of the first token in ascending order, then those of the second, and so on [STATES]."""
    of_slot = np.repeat(np.arange(len(frequency)), frequency)
    return np.argsort(of_slot[SPREAD * np.arange(STATES) % STATES], kind="stable")


def state_table(tokens: tuple[Token, ...]) -> StateTable:
    """The states of tokens whose frequencies sum to STATES: those of a token are numbered on from its frequency."""
    frequency = np.array([token.frequency for token in tokens], np.int64)
    starts = np.cumsum(frequency) - frequency
    token = np.repeat(np.arange(len(tokens)), frequency)
    number = np.arange(STATES) + (frequency - starts)[token]
    state_bits = STATE_BITS + 1 - np.array([int(i).bit_length() for i in number])
    first, extra_bits = np.array([(token.first, token.extra_bits) for token in tokens], np.int64)[token].T
    columns = np.empty((4, STATES), np.int64)
    columns[:, states_by_token(frequency)] = first, extra_bits, state_bits, (number << state_bits) - STATES
    return StateTable(*columns)


def decode_weights(table: bytes, stream: bytes, n_weights: int) -> npt.NDArray[np.int8]:
    """The `n_weights` weights of one piece [n_weights]; IsaError when table or stream is malformed."""
    if n_weights < 1:
        raise IsaError(f"a stream of {n_weights} weights, allowed: at least 1")
    states = state_table(parse_table(table))
    # The last number read may reach into two bytes behind the stream; they count as zeros, and then as an error.
    padded = np.frombuffer(stream + bytes(3), np.uint8).astype(np.int64)
    weights = np.empty(n_weights, np.int8)
    n_bits = _decode(padded, states.first, states.extra_bits, states.state_bits, states.following, weights)
    if n_bits < 0:
        raise IsaError(f"coded weights need more than {len(stream)} bytes", "store the whole stream")
    if -(-n_bits // (8 * WORD_BYTES)) * WORD_BYTES != len(stream):
        raise IsaError(f"coded weights end at bit {n_bits} of {len(stream)} bytes, allowed: inside the last word")
    if int.from_bytes(stream[n_bits // 8 :], "little") >> n_bits % 8:
        raise IsaError("bits behind the coded weights are not zero")
    return weights


@compiled
def _decode(
    stream: Ints, first: Ints, extra_bits: Ints, state_bits: Ints, following: Ints, weights: npt.NDArray[np.int8]
) -> int:
    """Decode into `weights` and return the number of bits read; -1 when they do not suffice."""
    end = 8 * (len(stream) - 3)
    position = STATE_BITS * min(LANES, len(weights))
    if position > end:
        return -1
    states = np.zeros(LANES, np.int64)
    for lane in range(min(LANES, len(weights))):
        at = STATE_BITS * lane
        states[lane] = (stream[at >> 3] | stream[(at >> 3) + 1] << 8) >> (at & 7) & (STATES - 1)
    for i in range(len(weights)):
        state = states[i % LANES]
        at = position >> 3
        bits = (stream[at] | stream[at + 1] << 8 | stream[at + 2] << 16) >> (position & 7)
        position += extra_bits[state]
        weights[i] = first[state] + (bits & ((1 << extra_bits[state]) - 1))
        if i + LANES < len(weights):
            position += state_bits[state]
            states[i % LANES] = following[state] + (bits >> extra_bits[state] & ((1 << state_bits[state]) - 1))
        if position > end:
            return -1
    return position
