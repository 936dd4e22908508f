"""Normative integer arithmetic of the machine. Every executor gives exactly the integers that this page describes.

Notation. All values are integers without bound unless a width is named; `>>` is an arithmetic right shift and rounds
towards minus infinity, as does `a // b`. int64 is wide enough for every intermediate value, so these functions, which
work on whole arrays, are exact. They return int64 arrays unless stated otherwise; operands broadcast as in numpy.

Scaling. A real factor is a pair (multiplier, shift): multiplier is 0 or in [2^30, 2^31), shift is a right shift, 2..62,
and the factor is multiplier / 2^shift. There are two roundings, both of TOSA 1.0's apply_scale_32:
  single  half towards plus infinity; in the output stage of models that come from ONNX;
  double  equal to gemmlowp's saturating doubling high multiplication (half towards plus infinity at bit 31) followed by
          its rounding division by a power of two (half away from zero); in the output stage of models that come from
          TensorFlow Lite, and in every other operator whatever the model.

Operators follow TensorFlow Lite Micro's reference kernels. `isa.fixed_point` holds the functions softmax is made of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isa.fixed_point import EXP_INTEGER_BITS, divide_by_power, exp_negative, multiply, reciprocal
from isa.fixed_point import Int64Array as Int64Array

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.float32]

ADD_LEFT_SHIFT = 20
"""Left shift of both operands of an int8 addition before they are rescaled: 255 * 2^20 < 2^31."""

_SOFTMAX_SUM_BITS = 12
"""Integer bits of the sum of exponentials."""

SOFTMAX_ROW = (1 << _SOFTMAX_SUM_BITS) - 1
"""Elements of the longest row whose sum of exponentials cannot overflow int32."""


@dataclass(frozen=True)
class Rescale:
    """The factor multiplier / 2^shift; shift is TOSA's right shift, 2..62."""

    multiplier: int
    shift: int


@dataclass(frozen=True)
class Addition:
    """Constants of `add`, `sub` and `residual`."""

    left_shift: int
    first: Rescale
    second: Rescale
    result: Rescale
    first_zero_point: int
    second_zero_point: int
    output_zero_point: int
    low: int
    high: int


def quantize_multiplier(real: float) -> Rescale:
    """The pair nearest to `real` >= 0, as TensorFlow Lite's QuantizeMultiplier finds it.

    real = fraction * 2^exponent, fraction in [1/2, 1); multiplier = fraction * 2^31 rounded half up; if that is 2^31,
    it is halved and the exponent grows by one; shift = 31 - exponent. Zero and factors below 2^-32 give (0, 31).
    ValueError: `real` is negative, not finite, or 2^29 and more, whose shift would be below 2.
    """
    if not math.isfinite(real) or real < 0:
        raise ValueError(f"scale factor {real} is not a finite number >= 0")
    multiplier, exponent = _significand(real)
    if multiplier == 0 or exponent < -31:
        return Rescale(0, 31)
    if exponent > 29:
        raise ValueError(f"scale factor {real} exceeds the limit 2^29")
    return Rescale(multiplier, 31 - exponent)


def _significand(real: float) -> tuple[int, int]:
    """(multiplier, exponent) with real = multiplier / 2^31 * 2^exponent as nearly as 31 bits allow."""
    fraction, exponent = math.frexp(real)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    return (1 << 30, exponent + 1) if multiplier == 1 << 31 else (multiplier, exponent)


def apply_scale(
    value: npt.ArrayLike, multiplier: npt.ArrayLike, shift: npt.ArrayLike, double_round: bool
) -> Int64Array:
    """TOSA 1.0's apply_scale_32: (value * multiplier + round) >> shift, for int32 values.

    round = 2^(shift - 1); with `double_round` and shift > 31 it is 2^30 more where value >= 0 and 2^30 less where
    value < 0. |value * multiplier| <= 2^62 and round <= 2^61 + 2^30, so the sum fits in 64 bits.
    """
    value = np.asarray(value, np.int64)
    shift = np.asarray(shift, np.int64)
    scaled = value * np.asarray(multiplier, np.int64) + (np.int64(1) << (shift - 1))
    if double_round:
        extra = np.where(shift > 31, np.int64(1 << 30), np.int64(0))
        scaled += np.where(value >= 0, extra, -extra)
    return np.asarray(scaled >> shift, np.int64)


def requantize(
    acc: npt.ArrayLike,
    multiplier: npt.ArrayLike,
    shift: npt.ArrayLike,
    zero_point: int,
    low: int,
    high: int,
    double_round: bool,
) -> Int64Array:
    """Output stage: min(max(apply_scale(acc) + zero_point, low), high).

    acc holds int32 values; multiplier and shift broadcast against it, for example [oc,1,1] for acc [n,oc,h,w].
    """
    return np.clip(apply_scale(acc, multiplier, shift, double_round) + zero_point, low, high)


def rescale(value: npt.ArrayLike, multiplier: int, shift: int) -> Int64Array:
    """`apply_scale` with double rounding: TensorFlow Lite's MultiplyByQuantizedMultiplier."""
    return apply_scale(value, multiplier, shift, True)


def add(first: IntArray, second: IntArray, constants: Addition) -> Int64Array:
    """Rescaled sum of two quantized tensors.

    a = rescale((first - first_zero_point) * 2^left_shift) by constants.first, b likewise for the second operand;
    result = clamp(rescale(a + b) by constants.result + output_zero_point, low, high).
    """
    return _add(first, second, constants, 1)


def sub(first: IntArray, second: IntArray, constants: Addition) -> Int64Array:
    """Rescaled difference: as `add` with a - b in the place of a + b."""
    return _add(first, second, constants, -1)


def residual(requantized: IntArray, other: IntArray, constants: Addition) -> Int64Array:
    """The output stage's residual operand: `add` of the requantized accumulator (first) and the other tensor."""
    return _add(requantized, other, constants, 1)


def _add(first: IntArray, second: IntArray, constants: Addition, sign: int) -> Int64Array:
    raised_first = (first.astype(np.int64) - constants.first_zero_point) << constants.left_shift
    raised_second = (second.astype(np.int64) - constants.second_zero_point) << constants.left_shift
    total = _scale(raised_first, constants.first) + sign * _scale(raised_second, constants.second)
    return np.clip(_scale(total, constants.result) + constants.output_zero_point, constants.low, constants.high)


def _scale(value: Int64Array, factor: Rescale) -> Int64Array:
    return rescale(value, factor.multiplier, factor.shift)


def mul(
    first: IntArray,
    second: IntArray,
    first_zero_point: int,
    second_zero_point: int,
    factor: Rescale,
    zero_point: int,
    low: int,
    high: int,
) -> Int64Array:
    """clamp(rescale((first - first_zero_point) * (second - second_zero_point)) + zero_point, low, high)."""
    product = (first.astype(np.int64) - first_zero_point) * (second.astype(np.int64) - second_zero_point)
    return np.clip(_scale(product, factor) + zero_point, low, high)


def lookup(table: IntArray, value: IntArray) -> IntArray:
    """table[value + 128] for int8 values, table[value] for uint8; table [256]. The result has the table's dtype."""
    result: IntArray = table[value.astype(np.int64) - np.iinfo(value.dtype).min]
    return result


def divide_rounded(total: npt.ArrayLike, count: npt.ArrayLike) -> Int64Array:
    """total / count with halves away from zero; count > 0.

    In C, whose division truncates: total > 0 ? (total + count / 2) / count : (total - count / 2) / count.
    """
    total = np.asarray(total, np.int64)
    count = np.asarray(count, np.int64)
    magnitude = (np.abs(total) + count // 2) // count
    return np.asarray(np.where(total > 0, magnitude, -magnitude), np.int64)


def average_pool(
    total: npt.ArrayLike, count: npt.ArrayLike, low: int, high: int, halves_up: bool = False
) -> Int64Array:
    """clamp(divide_rounded(total, count), low, high); with `halves_up` clamp((total + count // 2) // count, low, high).

    The latter is for values that stand for unsigned ones less 128. total is the sum of the stored values of a window,
    no zero point subtracted; count the number of values summed.
    """
    total, count = np.asarray(total, np.int64), np.asarray(count, np.int64)
    rounded = (total + count // 2) // count if halves_up else divide_rounded(total, count)
    return np.clip(rounded, low, high)


def mean(total: npt.ArrayLike, count: int, factor: Rescale, zero_point: int, low: int, high: int) -> Int64Array:
    """clamp(rescale(total, multiplier * 2^k // count, shift + k) + zero_point, low, high).

    total is the sum of value minus zero point over `count` > 0 elements and fits in int32; (multiplier, shift) is the
    factor from input scale to output scale; k = min(floor(log2(count)), 32, 62 - shift). The quotient is at least
    2^29 unless the last term of the minimum wins.
    """
    k = min(count.bit_length() - 1, 32, 62 - factor.shift)
    scaled = rescale(total, (factor.multiplier << k) // count, factor.shift + k)
    return np.clip(scaled + zero_point, low, high)


def softmax_scale(beta: float, input_scale: float) -> tuple[int, int]:
    """(multiplier, left shift) that turn a difference of int8 inputs into a fixed-point number with 5 integer bits.

    The real factor is min(beta * input_scale * 2^26, 2^31 - 1); multiplier / 2^31 * 2^left_shift approximates it as
    in `quantize_multiplier`. ValueError: the factor is at most 1/2, so that the left shift would be negative.
    """
    real = min(beta * input_scale * (1 << (31 - EXP_INTEGER_BITS)), float((1 << 31) - 1))
    if not real > 0.5:
        raise ValueError(f"softmax factor {real} is too small: beta {beta}, input scale {input_scale}")
    return _significand(real)


def softmax(value: IntArray, multiplier: int, left_shift: int, axis: int) -> Int64Array:
    """int8 softmax along `axis`; output scale 1/256, zero point -128.

    d = value - (largest value of the row), -255..0. Elements with d < -floor(31 * 2^26 / 2^left_shift) are too small to
    count: they take no part in the sum and give -128. For the others, in fixed point with rounding products (see
    `multiply`) as in gemmlowp:
      e(d) = exp(multiply(d * 2^left_shift, multiplier) / 2^26) * 2^31 (`exp_negative`)
      s    = sum of e(d) / 2^12, each rounded half away from zero
      z    = leading zero bits of s as an unsigned 32-bit number
      r    = 2^31 / (1 + (s * 2^z - 2^31) / 2^31) (`reciprocal`)
      out  = clamp(multiply(r, e(d)) / 2^(12 - z + 31 - 8) - 128, -128, 127), the quotient rounded half away from zero
    """
    smallest = -((31 << 26) >> left_shift)
    differences = np.maximum(np.arange(-255, 1, dtype=np.int64), smallest)
    table = exp_negative(multiply(differences << left_shift, np.int64(multiplier)))
    difference = value.astype(np.int64) - value.max(axis=axis, keepdims=True)
    counted = difference >= smallest
    exponential = table[difference + 255]
    total = np.where(counted, divide_by_power(exponential, _SOFTMAX_SUM_BITS), 0).sum(axis=axis, keepdims=True)
    zeros = 32 - np.frexp(total.astype(np.float64))[1].astype(np.int64)
    inverse = reciprocal((total << zeros) - (1 << 31))
    scaled = divide_by_power(multiply(inverse, exponential), _SOFTMAX_SUM_BITS - zeros + 31 - 8)
    return np.asarray(np.where(counted, np.clip(scaled - 128, -128, 127), -128), np.int64)


def quantize(value: npt.ArrayLike, scale: float, zero_point: int, dtype: npt.DTypeLike, half_even: bool) -> IntArray:
    """Float32 to integer at the boundary: clamp(round(value / float32(scale)) + zero_point) to the range of `dtype`.

    The quotient is rounded to float32; halves go to the even integer (ONNX) or away from zero (TensorFlow Lite).
    Infinities clamp. ValueError: a value is NaN.
    """
    with np.errstate(over="ignore"):
        ratio = np.asarray(value, np.float32) / np.float32(scale)
    if np.isnan(ratio).any():
        raise ValueError("cannot quantize NaN")
    exact = ratio.astype(np.float64)
    rounded = np.rint(exact) if half_even else np.trunc(exact + np.copysign(0.5, exact))
    limits = np.iinfo(np.dtype(dtype))
    result: IntArray = np.clip(rounded + zero_point, limits.min, limits.max).astype(dtype)
    return result


def dequantize(value: IntArray, scale: float, zero_point: int) -> FloatArray:
    """Integer to float32 at the boundary: float32(scale) * float32(value - zero_point)."""
    return np.float32(scale) * (value.astype(np.int64) - zero_point).astype(np.float32)
