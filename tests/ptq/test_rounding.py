"""Weights are rounded to a neighbor, and their sums survive."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from npuc.graph.types import Array
from npuc.ptq.rounding import round_keeping_sums

SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3))
WEIGHTS = arrays.arrays(np.float64, SHAPES, elements=st.floats(-120, 120, width=32))


@given(WEIGHTS)
def test_every_weight_goes_to_a_neighbor_and_every_channel_keeps_its_sum(weights: Array) -> None:
    rounded = round_keeping_sums(weights, 127)
    assert np.array_equal(rounded, np.rint(rounded))
    assert np.abs(rounded - weights).max() <= 1
    errors = (rounded - weights).reshape(len(weights), -1).sum(axis=1)
    assert np.abs(errors).max() <= 0.5 + 1e-9


@given(WEIGHTS)
def test_no_weight_exceeds_the_limit(weights: Array) -> None:
    assert np.abs(round_keeping_sums(weights / 120 * 7, 7)).max() <= 7


def test_as_few_weights_as_possible_change() -> None:
    weights = np.array([0.4, 0.4, 0.4, -0.1]).reshape(1, 1, 2, 2)
    assert round_keeping_sums(weights, 127).reshape(-1).tolist() == [1, 0, 0, 0]
