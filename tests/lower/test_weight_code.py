"""Coded weights decode to what was coded, are never longer than raw, and come close to the entropy."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.code_table import MAX_TABLE_BYTES, parse_table
from isa.timing.compiled import IS_COMPILED
from isa.weight_codec import decode_weights
from npuc.lower import weight_code
from npuc.lower.weight_code import CodedWeights, choose_tokens, encode_pieces, pack_table

Cuts = list[tuple[int, int]]


def decoded(coded: CodedWeights, cuts: Cuts) -> list[bytes]:
    return [
        decode_weights(coded.table, piece.data, stop - start).tobytes() if piece.coded_words else piece.data
        for piece, (start, stop) in zip(coded.pieces, cuts, strict=True)
    ]


def sample(seed: int, n: int, deviation: float) -> bytes:
    values = np.random.default_rng(seed).normal(0, deviation, n)
    return np.clip(np.rint(values), -128, 127).astype(np.int8).tobytes()


def entropy_bytes(weights: bytes) -> float:
    counts = np.unique(np.frombuffer(weights, np.int8), return_counts=True)[1]
    return float((counts * np.log2(len(weights) / counts)).sum()) / 8


@settings(max_examples=60)
@given(
    seed=st.integers(0, 1 << 20),
    n=st.integers(0, 3000),
    deviation=st.sampled_from((0, 0.3, 2, 30, 1000)),
    ends=st.lists(st.integers(0, 3000), max_size=5),
)
def test_pieces_decode_to_the_weights_in_no_more_bytes(seed: int, n: int, deviation: float, ends: list[int]) -> None:
    weights = sample(seed, n, deviation)
    edges = sorted({0, n, *(min(end, n) for end in ends)})
    cuts = list(pairwise(edges))
    coded = encode_pieces(weights, cuts)
    assert decoded(coded, cuts) == [weights[start:stop] for start, stop in cuts]
    assert coded.n_bytes <= n
    assert all(len(piece.data) == 8 * piece.coded_words for piece in coded.pieces if piece.coded_words)
    assert bool(coded.table) == any(piece.coded_words for piece in coded.pieces)


@pytest.mark.parametrize("deviation", [0.3, 0.5, 3, 10, 25])
def test_large_layers_come_within_five_percent_of_entropy(deviation: float) -> None:
    weights = sample(1, 50_000, deviation)
    assert encode_pieces(weights, [(0, len(weights))]).n_bytes < 1.05 * entropy_bytes(weights)


def test_weights_without_redundancy_stay_raw() -> None:
    weights = bytes(range(256)) * 20
    coded = encode_pieces(weights, [(0, 1000), (1000, len(weights))])
    assert coded.table == b""
    assert [piece.coded_words for piece in coded.pieces] == [0, 0]


def test_a_small_piece_of_a_coded_layer_may_stay_raw() -> None:
    weights = sample(2, 4000, 10)
    coded = encode_pieces(weights, [(0, 8), (8, 4000)])
    assert coded.pieces[0].data == weights[:8]
    assert [piece.coded_words > 0 for piece in coded.pieces] == [False, True]


@given(st.lists(st.sampled_from((0, 0, 1, 2, 50, 3000)), min_size=256, max_size=256).filter(any))
@settings(max_examples=40)
def test_any_histogram_gets_a_table_that_fits_and_covers_it(counts: list[int]) -> None:
    tokens = choose_tokens(tuple(counts))
    table = pack_table(tokens)
    assert len(table) <= MAX_TABLE_BYTES
    assert parse_table(table) == tokens
    for token in tokens:
        first = token.first + 128
        assert (sum(counts[first : first + (1 << token.extra_bits)]) > 0) == (token.frequency > 0)


@pytest.mark.skipif(not IS_COMPILED, reason="there is one variant only")
def test_the_encoder_writes_the_same_bits_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = sample(3, 3000, 12)
    compiled = encode_pieces(weights, [(0, 1000), (1000, 3000)])
    for name in ("_walk_states", "_write", "_relax"):
        monkeypatch.setattr(weight_code, name, getattr(weight_code, name).py_func)
    choose_tokens.cache_clear()
    assert encode_pieces(weights, [(0, 1000), (1000, 3000)]) == compiled
