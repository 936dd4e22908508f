"""Scales and zero points: cases C01, C03, C04 and the half-step law."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import CalibrationError, affine_from_range, channel_sqnr_db, symmetric_scales, widen_for_bias
from calibration.affine import INTEGER_LIMITS

bounds = st.floats(-(2.0**100), 2.0**100, width=32)


@pytest.mark.parametrize("dtype", INTEGER_LIMITS)
@given(a=bounds, b=bounds, position=st.floats(0, 1))
def test_every_value_in_range_is_within_half_a_step(dtype: str, a: float, b: float, position: float) -> None:
    lo, hi = min(a, b), max(a, b)
    scale, zero_point = affine_from_range(lo, hi, dtype)
    qmin, qmax = INTEGER_LIMITS[dtype]
    assert qmin <= zero_point <= qmax
    assert 0 < scale < np.inf
    assert scale == float(np.float32(scale))
    value = lo + position * (hi - lo)
    q = min(max(round(value / scale) + zero_point, qmin), qmax)
    assert abs(value - scale * (q - zero_point)) <= 0.5001 * scale


@pytest.mark.parametrize("dtype", INTEGER_LIMITS)
@pytest.mark.parametrize("extent", [0.0, 1e-45, 1e-38, 1e-30, 1e-20])
def test_all_zero_and_tiny_ranges_have_a_usable_scale(dtype: str, extent: float) -> None:
    scale, _ = affine_from_range(-extent, extent, dtype)
    assert 1e-20 < scale < 1


def test_a_range_beside_zero_is_widened_to_include_it() -> None:
    assert affine_from_range(2.0, 25.5) == (float(np.float32(0.1)), -128)
    assert affine_from_range(-25.5, -2.0) == (float(np.float32(0.1)), 127)


def test_int16_is_symmetric() -> None:
    assert affine_from_range(-1.0, 32.767, "int16") == (float(np.float32(0.001)), 0)


@pytest.mark.parametrize("lo_hi", [(1.0, 0.0), (float("nan"), 1.0), (0.0, float("inf")), (0.0, 1e39)])
def test_unusable_ranges_are_refused(lo_hi: tuple[float, float]) -> None:
    with pytest.raises(CalibrationError, match="must be finite, within float32 and ascending"):
        affine_from_range(*lo_hi)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(CalibrationError, match="dtype 'int4' is not a quantized type, allowed are int8, uint8, int16"):
        affine_from_range(0, 1, "int4")


def test_zero_and_underflowing_channels_have_positive_scales() -> None:
    weights = np.array([[0, 0], [1, -1], [1e-6, 0], [1e-40, 0]], np.float32)
    scales = symmetric_scales(weights, axis=0)
    assert scales.dtype == np.float32
    assert (scales > 0).all()
    assert np.isfinite(scales).all()
    assert scales[1] == np.float32(1 / 127)
    assert symmetric_scales(weights.astype(np.float16), axis=0)[2] > 0


def test_scales_follow_the_axis() -> None:
    weights = np.ones((3, 64, 3, 3)) * 10.0 ** (-np.arange(64) / 16)[:, None, None]
    scales = symmetric_scales(weights, axis=1)
    np.testing.assert_allclose(scales, 10.0 ** (-np.arange(64) / 16) / 127, rtol=1e-6)
    assert symmetric_scales(weights, axis=-3).tolist() == scales.tolist()
    assert symmetric_scales(weights, axis=None).shape == (1,)


def test_an_outlier_weight_costs_only_its_own_channel() -> None:
    weights = np.random.default_rng(0).normal(0, 0.35, (8, 8, 3, 3))
    weights[3, 0, 0, 0] = -15.6
    scales = symmetric_scales(weights, axis=0).astype(np.float64)[:, None, None, None]
    sqnr = channel_sqnr_db(weights, np.rint(weights / scales) * scales, axis=0)
    assert (np.delete(sqnr, 3) > 30).all()
    assert int(sqnr.argmin()) == 3


def test_nan_weights_are_refused() -> None:
    with pytest.raises(CalibrationError, match=r"weights: value nan at index \[0, 1\]"):
        symmetric_scales(np.array([[0, np.nan]]), axis=0)


@pytest.mark.parametrize("shape", [(2,), (1, 2)])
def test_a_bias_beyond_int32_enlarges_its_weight_scale(shape: tuple[int, ...]) -> None:
    scales = symmetric_scales(np.array([[1e-7], [-1e-7]]), axis=0)
    bias = np.array([5, -4.5]).reshape(shape)
    widened, notes = widen_for_bias(scales, bias, 0.5)
    q_bias = np.rint(bias.reshape(-1) / (0.5 * widened.astype(np.float64)))
    assert (np.abs(q_bias) <= 2**30).all()
    np.testing.assert_allclose(q_bias * 0.5 * widened, [5, -4.5], rtol=1e-6)
    assert notes[0] == (
        "channel 0: weight scale enlarged from 7.87402e-10 to 9.31323e-09, because bias magnitude 5 at input scale 0.5 "
        "exceeds the int32 accumulator"
    )
    assert len(notes) == 2


def test_an_ordinary_bias_changes_nothing() -> None:
    scales = np.array([0.01, 0.02], np.float32)
    widened, notes = widen_for_bias(scales, [1.0, -1000.0], 0.05)
    assert widened.tolist() == scales.tolist()
    assert notes == ()


def test_one_scale_for_all_channels_follows_the_largest_bias() -> None:
    widened, notes = widen_for_bias(np.array([1e-9], np.float32), [1.0, -100.0], 0.5)
    assert 100 / (0.5 * float(widened[0])) <= 2**30
    assert len(notes) == 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), st.floats(1e-12, 1e3))
def test_a_widened_bias_always_fits(bias: list[float], input_scale: float) -> None:
    scales = np.full(len(bias), 1e-9, np.float32)
    widened, _ = widen_for_bias(scales, bias, input_scale)
    assert (widened >= scales).all()
    assert (np.abs(bias) / (input_scale * widened.astype(np.float64)) <= 2**30).all()


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        ([1.0, 2.0, 3.0], "bias has 3 values for 2 weight scales"),
        ([np.nan, 1.0], "bias: value nan at index"),
        ([1e300, 1.0], "for every float32 weight scale"),
    ],
)
def test_an_unusable_bias_is_refused(bias: list[float], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        widen_for_bias(np.array([0.1, 0.1], np.float32), bias, 1e-3)
