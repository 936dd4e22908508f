"""Observers against slow, obvious searches over the raw values."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from calibration import OBSERVERS, CalibrationError, affine_from_range, new_observer
from calibration.observers.entropy import clipping_divergence

Floats32 = NDArray[np.float32]
ROBUST = ("percentile", "entropy", "mse")
value_arrays = arrays(np.float32, st.integers(1, 200), elements=st.floats(-100, 100, width=32))


def observed_range(name: str, *parts: Floats32) -> tuple[float, float]:
    observer = new_observer(name, "t")
    for part in parts:
        observer.observe(part)
    return observer.range()


def brute_force_error(values: Floats32, lo: float, hi: float) -> float:
    scale, zero_point = affine_from_range(lo, hi)
    total = 0.0
    for value in values.tolist():
        q = min(max(round(value / scale) + zero_point, -128), 127)
        total += (value - scale * (q - zero_point)) ** 2
    return total


@given(value_arrays)
def test_minmax_is_exact(values: Floats32) -> None:
    assert observed_range("minmax", values) == (float(values.min()), float(values.max()))


@pytest.mark.parametrize("name", OBSERVERS)
@given(values=value_arrays)
def test_every_range_is_ascending_and_within_the_values(name: str, values: Floats32) -> None:
    lo, hi = observed_range(name, values)
    assert lo <= hi
    assert min(0.0, values.min()) <= lo
    assert hi <= max(0.0, values.max())


@pytest.mark.parametrize("name", OBSERVERS)
def test_batches_and_their_order_do_not_matter(name: str) -> None:
    values = np.random.default_rng(1).laplace(size=3000).astype(np.float32)
    assert observed_range(name, values) == observed_range(name, *np.array_split(values[::-1], 7))


@pytest.mark.parametrize("percent", [90.0, 99.0, 99.9, 99.99])
def test_percentile_agrees_with_sorting(percent: float) -> None:
    values = np.random.default_rng(2).normal(size=20_000).astype(np.float32)
    lo, hi = observed_range(f"percentile:{percent}", values)
    ordered = np.sort(values)
    n_cut = math.floor(values.size * (100 - percent) / 200 + 1e-9)
    exact_lo, exact_hi = ordered[n_cut], ordered[-1 - n_cut]
    assert exact_lo - abs(exact_lo) / 512 <= lo <= exact_lo
    assert exact_hi <= hi <= exact_hi + abs(exact_hi) / 512


@pytest.mark.parametrize("seed", range(4))
def test_mse_is_as_good_as_a_brute_force_over_both_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.laplace(size=800), rng.normal(3, 0.2, size=200)]).astype(np.float32)
    lo, hi = observed_range("mse", values)
    factors = np.linspace(0.1, 1, 19)
    least = min(
        brute_force_error(values, float(values.min() * a), float(values.max() * b)) for a in factors for b in factors
    )
    assert brute_force_error(values, lo, hi) <= 1.05 * least


def test_mse_keeps_the_range_of_values_that_int8_represents_exactly() -> None:
    pixels = np.arange(256, dtype=np.float32)
    assert observed_range("mse", pixels) == (0.0, 255.0)


def slow_divergence(counts: list[float], first: int, stop: int, n_levels: int = 256) -> float:
    inside = counts[first:stop]
    p = list(inside)
    p[0] += sum(counts[:first])
    p[-1] += sum(counts[stop:])
    q = [0.0] * len(inside)
    starts = [math.ceil(level * len(inside) / n_levels) for level in range(n_levels + 1)]
    for start, end in pairwise(starts):
        occupied = [i for i in range(start, end) if inside[i] > 0]
        for i in occupied:
            q[i] = sum(inside[start:end]) / len(occupied)
    if sum(q) == 0:
        return math.inf
    p = [value / sum(counts) for value in p]
    q_sum = sum(q)
    return sum(a * math.log(a / max(b / q_sum, 1e-9)) for a, b in zip(p, q, strict=True) if a > 0)


@given(arrays(np.float64, st.integers(300, 700), elements=st.integers(0, 9).map(float)), st.integers(0, 20))
def test_divergence_equals_its_definition(counts: NDArray[np.float64], margin: int) -> None:
    counts[150] += 1
    expected = slow_divergence(counts.tolist(), margin, counts.size - margin)
    assert clipping_divergence(counts, margin, counts.size - margin) == pytest.approx(expected, abs=1e-9)


def slow_entropy_threshold(values: Floats32) -> float:
    limit = float(values.max())
    counts, _ = np.histogram(values, bins=2048, range=(0.0, limit))
    costs = {stop: slow_divergence([float(n) for n in counts], 0, stop) for stop in range(2048, 255, -64)}
    return limit * min(costs, key=lambda stop: (costs[stop], -stop)) / 2048


def test_entropy_agrees_with_a_brute_force_over_thresholds() -> None:
    values = np.random.default_rng(3).exponential(size=50_000).astype(np.float32)
    lo, hi = observed_range("entropy", values)
    assert lo == values.min()
    assert hi == pytest.approx(slow_entropy_threshold(values), rel=0.1)


def test_zeros_do_not_move_the_entropy_range() -> None:
    values = np.random.default_rng(4).exponential(size=5000).astype(np.float32)
    padded = np.concatenate([values, np.zeros(20_000, np.float32)])
    assert observed_range("entropy", padded)[1] == observed_range("entropy", values)[1]


@pytest.mark.parametrize("name", OBSERVERS)
def test_a_constant_tensor_keeps_its_value_in_range(name: str) -> None:
    for value in (0.0, 5.0, -5.0, 1e-30):
        lo, hi = observed_range(name, np.full(10, value, np.float32))
        assert min(lo, 0) <= np.float32(value) <= max(hi, 0)


@pytest.mark.parametrize("per_sample", [1, 8, 1000])
@pytest.mark.parametrize("name", ROBUST)
def test_one_huge_outlier_leaves_the_scale_below_twice_the_clean_one(name: str, per_sample: int) -> None:
    clean = np.random.default_rng(0).uniform(-1, 1, (100, per_sample)).astype(np.float32)
    outlier = np.array([1e4], np.float32)
    clean_scale, _ = affine_from_range(*observed_range(name, clean))
    scale, _ = affine_from_range(*observed_range(name, clean, outlier))
    assert scale < 2 * clean_scale


@pytest.mark.parametrize("name", ROBUST)
def test_outliers_left_out_are_noted_with_the_tensor(name: str) -> None:
    observer = new_observer(name, "conv1")
    observer.observe(np.append(np.linspace(-1, 1, 100), 1e4))
    assert observer.notes() == (
        "tensor conv1: 1 of 101 values are isolated outliers (largest magnitude 10000) and saturate",
    )


def test_minmax_warns_of_an_outlier() -> None:
    observer = new_observer("minmax", "conv1")
    observer.observe(np.append(np.linspace(-1, 1, 100), 1e4))
    assert observer.notes() == (
        "tensor conv1: range [-1, 10000] is 10000 times the 99.9 percentile 1 of its magnitudes; "
        "compare another observer",
    )


@pytest.mark.parametrize("name", OBSERVERS)
def test_a_clean_tensor_has_no_notes(name: str) -> None:
    observer = new_observer(name, "t")
    observer.observe(np.random.default_rng(0).normal(size=1000))
    assert observer.notes() == ()


def test_rare_large_scores_without_a_gap_are_no_outliers() -> None:
    scores = np.concatenate([np.full(100_000, 1e-3), np.geomspace(1e-3, 0.95, 50)]).astype(np.float32)
    assert observed_range("mse", scores)[1] > 0.8


def test_nan_is_refused_with_tensor_and_index() -> None:
    observer = new_observer("mse", "conv1")
    with pytest.raises(
        CalibrationError, match=r"^tensor conv1: value nan at index \[1, 0\], 1 such of 4, must be finite$"
    ):
        observer.observe(np.array([[0, 1], [np.nan, 2]], np.float32))


def test_infinities_are_left_out_and_noted() -> None:
    observer = new_observer("minmax", "mask")
    observer.observe(np.array([-np.inf, 0.0, 1.0, 1e300]))
    assert observer.range() == (0.0, 1.0)
    assert observer.notes() == ("tensor mask: 2 infinite values were left out of its range and saturate",)


def test_a_tensor_without_values_is_refused() -> None:
    with pytest.raises(CalibrationError, match="tensor t: no finite value was observed, at least 1 is needed"):
        new_observer("minmax", "t").range()


@pytest.mark.parametrize(
    "name", ["max", "percentile:50", "percentile:101", "percentile:many", "percentile:nan", "mse:2"]
)
def test_unknown_observers_and_percentiles_are_refused(name: str) -> None:
    with pytest.raises(CalibrationError, match=r"^observer .*(allowed are minmax|above 50 and at most 100)"):
        new_observer(name, "t")
