"""The streaming histogram against the values themselves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from calibration.histogram import Histogram

Floats32 = NDArray[np.float32]
finite_floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
float_arrays = arrays(np.float32, st.integers(1, 60), elements=finite_floats)


def histogram_of(*parts: Floats32) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    return histogram


@given(float_arrays)
def test_every_value_lies_within_the_edges_of_its_bin(values: Floats32) -> None:
    histogram = histogram_of(values)
    lower, upper = histogram.edges()
    for value in values.tolist():
        assert ((lower <= value) & (value <= upper)).any()
    assert histogram.n_values == values.size
    assert (histogram.minimum, histogram.maximum) == (values.min(), values.max())


@given(float_arrays)
def test_bins_are_ascending_and_narrow(values: Floats32) -> None:
    histogram = histogram_of(values)
    lower, upper = histogram.edges()
    assert (upper[:-1] <= lower[1:]).all()
    magnitude = np.maximum(np.abs(lower), np.abs(upper))
    assert (upper - lower <= magnitude / 512 + 2.0**-135).all()


@given(st.lists(float_arrays, min_size=1, max_size=5))
def test_the_result_does_not_depend_on_order_or_splitting(parts: list[Floats32]) -> None:
    one = histogram_of(np.concatenate(parts))
    other = histogram_of(*(part[::-1] for part in reversed(parts)))
    for name in ("keys", "counts", "sums"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_arrays_longer_than_a_chunk_are_counted_whole() -> None:
    values = np.arange(2**20 + 5, dtype=np.float32)
    histogram = histogram_of(values)
    assert histogram.n_values == values.size
    assert histogram.maximum == 2**20 + 4


def test_both_zeros_share_a_bin() -> None:
    histogram = histogram_of(np.array([0.0, -0.0], np.float32))
    assert histogram.counts.tolist() == [2]


def test_an_empty_array_changes_nothing() -> None:
    assert histogram_of(np.zeros(0, np.float32)).n_values == 0


def test_selected_bins_bring_their_edges_as_limits() -> None:
    histogram = histogram_of(np.array([-3.0, 0.5, 1.0, 7.0], np.float32))
    selected = histogram.select(np.abs(histogram.means) < 2)
    assert selected.n_values == 2
    assert selected.minimum == 0.5
    assert 1.0 <= selected.maximum <= 1.0 + 1 / 512
