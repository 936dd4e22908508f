"""The constants of a convolution's channels: the same outputs as the operator's, in the shortest records."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.scale_record import record_bytes, unpack
from npuc.lower.conv import FACTOR_ONE, pack_scales
from npuc.ops.integer.conv import QConv
from npuc.ops.window import Window


def conv(rows: list[tuple[int, int]], *, double_round: bool = True, clamp: tuple[int, int] = (-128, 127)) -> QConv:
    multipliers, shifts = zip(*rows, strict=True)
    return QConv(Window((1, 1)), 1, 3, 5, multipliers, shifts, double_round, clamp, weight_zero_point=-7)


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 31), (1 << 31) - 1),
            st.one_of(st.just(0), st.integers(0, (1 << 31) - 1)),
            st.integers(2, 62),
        ),
        min_size=1,
        max_size=9,
    ),
    st.booleans(),
)
def test_channels_without_weights_keep_their_output_in_the_shortest_record(
    rows: list[tuple[int, int, int]], double_round: bool
) -> None:
    op = conv([(multiplier, shift) for _, multiplier, shift in rows], double_round=double_round)
    bias = np.array([row[0] for row in rows], np.int64)
    form, data = pack_scales(op, np.full((len(rows), 4, 1, 1), -7, np.int8), bias)
    stored = unpack(np.frombuffer(data, np.uint8).reshape(len(rows), record_bytes(form)), form)
    short = conv(list(zip(stored.multiplier.tolist(), stored.shift.tolist(), strict=True)), double_round=double_round)
    assert record_bytes(form) == 6
    expected = op.output_stage(bias[None, :, None, None])
    np.testing.assert_array_equal(short.output_stage(stored.bias[None, :, None, None]), expected)


@pytest.mark.parametrize(("weight", "bytes_each"), [(-7, 7), (-6, 10)])
def test_a_channel_with_weights_keeps_its_constants(weight: int, bytes_each: int) -> None:
    op = conv([(1 << 30, 40), ((1 << 30) + 9, 61)])
    weights = np.array([1, weight], np.int8).reshape(2, 1, 1, 1)
    form, data = pack_scales(op, weights, np.array([3000, 1 << 30]))
    stored = unpack(np.frombuffer(data, np.uint8).reshape(2, bytes_each), form)
    assert stored.bias[0] == 3000
    assert (int(stored.multiplier[1]), int(stored.shift[1])) == (FACTOR_ONE if weight == -7 else ((1 << 30) + 9, 61))
