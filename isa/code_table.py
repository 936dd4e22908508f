"""The code table of a layer's weights: its constants, its place and its bits (docs/weight-codec.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from isa.errors import IsaError
from isa.scale_record import record_bytes

Number = TypeVar("Number", int, npt.NDArray[np.int64])

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


def code_table_offset(ofm_channels: Number, scale_form: Number) -> Number:
    """Bytes from a layer's scales to its code table."""
    return -(-record_bytes(scale_form) * ofm_channels // TABLE_UNIT_BYTES) * TABLE_UNIT_BYTES


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
