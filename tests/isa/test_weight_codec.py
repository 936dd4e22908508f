"""The decoder against a reader of docs/weight-codec.md that works on strings of bits, and on damaged streams."""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa import weight_codec
from isa.code_table import MAX_TABLE_BYTES, Token, parse_table
from isa.errors import IsaError
from isa.timing.compiled import IS_COMPILED
from isa.weight_codec import decode_weights, state_table

Bits = list[tuple[int, int]]


def pack(fields: Bits, unit_bytes: int) -> bytes:
    text = "".join(format(value, f"0{width}b")[::-1] for value, width in fields if width)
    text += "0" * (-len(text) % (8 * unit_bytes))
    return bytes(int(text[i : i + 8][::-1], 2) for i in range(0, len(text), 8))


def golomb(value: int) -> Bits:
    prefix = 0
    while value >= 4 * (2 ** (prefix + 1) - 1):
        prefix += 1
    return [((1 << prefix) - 1, prefix + 1), (value - 4 * (2**prefix - 1), prefix + 2)]


def table_fields(tokens: Sequence[Token]) -> Bits:
    fields = [(1, 4), (tokens[0].first + 128, 8)]
    for token in tokens:
        fields += [(token.extra_bits, 3), *golomb(token.frequency)]
    return fields


def slow_decode(tokens: Sequence[Token], stream: bytes, n_weights: int) -> list[int]:
    text = "".join(format(byte, "08b")[::-1] for byte in stream)
    slots = [token for token in tokens for _ in range(token.frequency)]
    of_state = [slots[323 * s % 512] for s in range(512)]
    at = 0

    def take(width: int) -> int:
        nonlocal at
        at += width
        return int(text[at - width : at][::-1] or "0", 2)

    states = [take(9) for _ in range(min(8, n_weights))]
    weights = []
    for i in range(n_weights):
        state = states[i % 8]
        token = of_state[state]
        weights.append(token.first + take(token.extra_bits))
        if i + 8 < n_weights:
            number = token.frequency + sum(other is token for other in of_state[:state])
            width = 9 - (number.bit_length() - 1)
            states[i % 8] = number * 2**width - 512 + take(width)
    return weights


@st.composite
def token_lists(draw: st.DrawFn) -> tuple[Token, ...]:
    """Tokens that fit a table, some of them with frequency zero."""
    first = draw(st.integers(-128, 100))
    widths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=20))
    while first + sum(1 << e for e in widths) > 128:
        widths.pop()
    widths = widths or [0]
    weights = draw(st.lists(st.integers(0, 9), min_size=len(widths), max_size=len(widths)))
    weights[-1] += 1
    frequencies = [512 * w // sum(weights) for w in weights]
    frequencies[-1] += 512 - sum(frequencies)
    tokens = []
    for e, frequency in zip(widths, frequencies, strict=True):
        tokens.append(Token(first, e, frequency))
        first += 1 << e
    return tuple(tokens)


@settings(max_examples=60)
@given(tokens=token_lists(), n_weights=st.integers(1, 60), seed=st.integers(0, 1 << 20))
def test_any_bits_decode_as_the_specification_says(tokens: tuple[Token, ...], n_weights: int, seed: int) -> None:
    table = pack(table_fields(tokens), 16)
    assert parse_table(table) == tokens
    noise = np.random.default_rng(seed).integers(0, 256, 256, dtype=np.uint8)
    weights = np.empty(n_weights, np.int8)
    states = state_table(tokens)
    padded = np.r_[noise, [0, 0, 0]].astype(np.int64)
    n_bits = weight_codec._decode(padded, states.first, states.extra_bits, states.state_bits, states.following, weights)
    stream = pack([(int.from_bytes(noise.tobytes(), "little") & ((1 << n_bits) - 1), n_bits)], 8)
    assert decode_weights(table, stream, n_weights).tolist() == slow_decode(tokens, stream, n_weights)


HALVES = (Token(-1, 0, 256), Token(0, 0, 256))


def test_a_single_token_needs_no_state_bits() -> None:
    table = pack(table_fields((Token(5, 0, 512),)), 16)
    stream = pack([(0, 72)], 8)
    assert decode_weights(table, stream, 1000).tolist() == [5] * 1000


@pytest.mark.skipif(not IS_COMPILED, reason="there is one variant only")
def test_the_decoder_reads_the_same_weights_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    table, stream = pack(table_fields(HALVES), 16), pack([(0x5A3C96F00F1E2D4B97, 72), (0xC35A, 16)], 8)
    n_weights = 24
    compiled = decode_weights(table, stream, n_weights).tolist()
    monkeypatch.setattr(weight_codec, "_decode", vars(weight_codec)["_decode"].py_func)
    assert decode_weights(table, stream, n_weights).tolist() == compiled == slow_decode(HALVES, stream, n_weights)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([(2, 4), (0, 8)], "weight codec 2, known: 1"),
        ([(1, 4), (0, 8), (0, 3), *golomb(300), (0, 3), *golomb(213)], "sum to 513, allowed: 512"),
        ([(1, 4), (255, 8), (1, 3), *golomb(512)], "reaches value 128, limit 127"),
        ([(1, 4), (0, 8), (0, 3), (0x1FF, 9)], "frequency of a token exceeds 512"),
        ([(1, 4), (0, 8), *((0, 3), *golomb(1)) * 18], "ends inside a token"),
        ([*table_fields(HALVES), (1, 1)], "behind the last token"),
    ],
)
def test_a_malformed_table_is_refused(fields: Bits, message: str) -> None:
    with pytest.raises(IsaError, match=message):
        parse_table(pack(fields, 16))


@pytest.mark.parametrize("n_bytes", [0, 8, MAX_TABLE_BYTES + 16])
def test_a_table_of_an_impossible_length_is_refused(n_bytes: int) -> None:
    with pytest.raises(IsaError, match=r"code table"):
        parse_table(bytes(n_bytes))


@pytest.mark.parametrize(
    ("stream", "n_weights", "message"),
    [
        (bytes(8), 100, "need more than 8 bytes"),
        (bytes(16), 10000, "need more than 16 bytes"),
        (bytes(24), 8, "allowed: inside the last word"),
        (bytes(15) + b"\x80", 8, "bits behind the coded weights"),
        (bytes(16), 0, "allowed: at least 1"),
    ],
)
def test_a_malformed_stream_is_refused(stream: bytes, n_weights: int, message: str) -> None:
    with pytest.raises(IsaError, match=message):
        decode_weights(pack(table_fields(HALVES), 16), stream, n_weights)


@given(table=st.binary(min_size=16, max_size=112), stream=st.binary(max_size=200), n=st.integers(0, 300))
def test_arbitrary_bytes_decode_or_are_refused(table: bytes, stream: bytes, n: int) -> None:
    with suppress(IsaError):
        assert len(decode_weights(b"\x01" + table[: len(table) // 16 * 16 - 1], stream, n)) == n
