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

from isa.code_table import LANES, SPREAD, STATE_BITS, STATES, WORD_BYTES, Token, parse_table
from isa.errors import IsaError
from isa.timing.compiled import compiled

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StateTable:
    """What each state [STATES] means: a weight is `first` + the number in the next `extra_bits` bits, and the state
    after it is `following` + the number in the `state_bits` bits behind those.
    """

    first: Ints
    extra_bits: Ints
    state_bits: Ints
    following: Ints


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
