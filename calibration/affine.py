"""Scales and zero points from ranges: real = scale * (q - zero_point)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibration.errors import CalibrationError
from calibration.finite import require_finite
from calibration.ranges import Range

INTEGER_LIMITS: dict[str, tuple[int, int]] = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}
SYMMETRIC_DTYPES = frozenset({"int16"})
WEIGHT_LIMIT = 127
FLOAT32_MAX = float(np.finfo(np.float32).max)

MIN_SCALE = 2.0**-63
"""The product of two such scales, which is the scale of a bias, is still a normal float32."""

ZERO_SCALE = 2.0**-12
"""The scale of what is all zero: any would do for it, a small one lets the bias that remains keep its resolution."""

BIAS_LIMIT = 2**30
"""Half of int32, so that the products that an accumulator adds to its bias fit as well."""


def affine_from_range(lo: float, hi: float, dtype: str = "int8") -> tuple[float, int]:
    """Scale and zero point with which `dtype` covers [lo, hi] widened to include zero.

    int8 and uint8 are asymmetric, int16 is symmetric (zero point 0, levels -32767..32767). The scale is positive,
    finite and a float32; a range too narrow for any use (all zero, or 1e-30) gets ZERO_SCALE. Every x in the range is
    represented within half a step. CalibrationError: lo > hi, a bound that is not finite, an unknown dtype.
    """
    lo, hi = _include_zero(lo, hi)
    qmin, qmax = integer_limits(dtype)
    if dtype in SYMMETRIC_DTYPES:
        return _usable_scale(max(-lo, hi) / qmax), 0
    scale = _usable_scale((hi - lo) / (qmax - qmin))
    return scale, min(max(qmin - round(lo / scale), qmin), qmax)


def integer_limits(dtype: str) -> tuple[int, int]:
    """Least and greatest value of a quantized dtype. CalibrationError lists the dtypes for an unknown one."""
    if dtype not in INTEGER_LIMITS:
        raise CalibrationError(
            f"dtype {dtype!r} is not a quantized type, allowed are {', '.join(INTEGER_LIMITS)}",
            hint="choose one of these",
        )
    return INTEGER_LIMITS[dtype]


def symmetric_scales(weights: NDArray[Any], axis: int | None) -> NDArray[np.float32]:
    """Scales of symmetric int8 weights, levels -127..127: max |w| / 127 along all axes but `axis`.

    Gives [channels], or [1] (one scale for the tensor) when `axis` is None. A channel of zeros gets ZERO_SCALE.
    CalibrationError if a weight is NaN or infinite.
    """
    magnitudes = np.abs(np.asarray(weights, np.float64))
    require_finite(magnitudes, "weights")
    others = tuple(i for i in range(magnitudes.ndim) if axis is None or i != axis % magnitudes.ndim)
    largest = magnitudes.max(axis=others, initial=0.0).reshape(-1)
    return np.array([_usable_scale(value / WEIGHT_LIMIT) for value in largest.tolist()], np.float32)


def widen_for_bias(
    scales: NDArray[np.float32], bias: ArrayLike, input_scale: float
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Enlarge the weight scales for which the int32 bias, bias / (input_scale * scale), would exceed 2**30.

    scales [channels] or [1]; bias of any shape with as many values as there are channels, as Gemm allows [1, n]. The
    weights of such a channel lose resolution that its bias makes invisible. Also gives one note for each changed
    scale. CalibrationError: another number of values, a value that is not finite, or a bias that no float32 scale
    accommodates.
    """
    magnitudes = _bias_magnitudes(bias, scales.size)
    overflows = magnitudes / (input_scale * scales.astype(np.float64)) > BIAS_LIMIT
    needed = magnitudes / (BIAS_LIMIT * input_scale)
    if needed.max(initial=0.0) >= FLOAT32_MAX:
        raise CalibrationError(
            f"bias magnitude {magnitudes.max():.6g} at input scale {input_scale:.6g} exceeds the int32 accumulator "
            "for every float32 weight scale",
            hint="rescale the layer or correct its bias",
        )
    # The next float32 up, as rounding to nearest might leave the quotient above the limit.
    widened = np.where(overflows, np.nextafter(needed.astype(np.float32), np.float32(np.inf)), scales)
    notes = tuple(
        f"channel {i}: weight scale enlarged from {scales[i]:.6g} to {widened[i]:.6g}, because bias magnitude "
        f"{magnitudes[i]:.6g} at input scale {input_scale:.6g} exceeds the int32 accumulator"
        for i in np.flatnonzero(overflows).tolist()
    )
    return widened, notes


def _bias_magnitudes(bias: ArrayLike, n_scales: int) -> NDArray[np.float64]:
    magnitudes = np.abs(np.asarray(bias, np.float64).reshape(-1))
    require_finite(magnitudes, "bias")
    if n_scales == 1:
        return np.array([magnitudes.max(initial=0.0)])
    if magnitudes.size != n_scales:
        raise CalibrationError(
            f"bias has {magnitudes.size} values for {n_scales} weight scales, must have one for each channel",
            hint="broadcast the bias to the output channels",
        )
    return magnitudes


def _usable_scale(step: float) -> float:
    return float(np.float32(step)) if step >= MIN_SCALE else ZERO_SCALE


def _include_zero(lo: float, hi: float) -> Range:
    if not -FLOAT32_MAX <= lo <= hi <= FLOAT32_MAX:
        raise CalibrationError(
            f"range [{lo}, {hi}] must be finite, within float32 and ascending", hint="calibrate the tensor again"
        )
    return min(float(lo), 0.0), max(float(hi), 0.0)
