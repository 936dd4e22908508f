"""Normative fixed-point functions, as gemmlowp defines them; `isa.arithmetic` has the notation.

An int32 value v with b integer bits stands for v / 2^(31 - b).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]

EXP_INTEGER_BITS = 5
"""Integer bits of the argument of `exp_negative`."""


def multiply(first: Int64Array, second: Int64Array | np.int64) -> Int64Array:
    """Product of two int32 fixed-point numbers: (first * second + 2^30) >> 31; -2^31 * -2^31 saturates to 2^31 - 1.

    The integer bits of the result are the sum of the operands' integer bits.
    """
    return np.asarray(np.minimum((first * second + (1 << 30)) >> 31, (1 << 31) - 1), np.int64)


def divide_by_power(value: Int64Array, exponent: npt.ArrayLike) -> Int64Array:
    """value / 2^exponent, halves away from zero; exponent >= 0."""
    exponent = np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    magnitude = (np.abs(value) + half) >> exponent
    return np.asarray(np.where(value >= 0, magnitude, -magnitude), np.int64)


def _saturate(value: Int64Array) -> Int64Array:
    return np.clip(value, -(1 << 31), (1 << 31) - 1)


def exp_negative(value: Int64Array, integer_bits: int = EXP_INTEGER_BITS) -> Int64Array:
    """exp(value / 2^(31 - integer_bits)) for int32 values in -2^31..0, as a fraction of 2^31 (2^31 - 1 for value 0).

    value = remainder - k quarters with the remainder in [-1/4, 0): a polynomial gives exp(remainder), then bit i of k,
    from 0 upwards, multiplies by exp(-2^(i - 2)), a constant rounded to 31 bits. At most 5 integer bits.
    """
    quarter = 1 << (29 - integer_bits)
    remainder = (value & (quarter - 1)) - quarter
    quarters = remainder - value
    result = _exp_small(remainder << integer_bits)
    for bit, factor in enumerate((1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)):
        result = np.where(quarters & (quarter << bit), multiply(result, np.int64(factor)), result)
    return np.where(value == 0, (1 << 31) - 1, result)


def _exp_small(value: Int64Array) -> Int64Array:
    """exp(value / 2^31) * 2^31 for value / 2^31 in [-1/4, 0): Taylor polynomial of degree 4 around -1/8."""
    center = np.int64(1895147668)
    third = np.int64(715827883)
    x = value + (1 << 28)
    x2 = multiply(x, x)
    x3 = multiply(x2, x)
    x4 = multiply(x2, x2)
    tail = divide_by_power(multiply(divide_by_power(x4, 2) + x3, third) + x2, 1)
    return center + multiply(x + tail, center)


def reciprocal(value: Int64Array) -> Int64Array:
    """1 / (1 + value / 2^31) * 2^31 for value in 0..2^31 - 1."""
    return _saturate(_half_reciprocal(value) << 1)


def _half_reciprocal(value: Int64Array) -> Int64Array:
    """1 / (1 + value / 2^31) * 2^30 for value in 0..2^31 - 1: three Newton-Raphson steps on (1 + value) / 2."""
    half_denominator = (value + (1 << 31)) >> 1
    one = 1 << 29
    x = 1515870810 + multiply(half_denominator, np.int64(-1010580540))
    for _ in range(3):
        error = one - multiply(half_denominator, x)
        x = x + _saturate(multiply(x, error) << 2)
    return x


def logistic(value: Int64Array) -> Int64Array:
    """1 / (1 + exp(-value / 2^27)) * 2^31 for int32 values; 2^30 for value 0."""
    positive = reciprocal(exp_negative(-np.abs(value), 4))
    return np.where(value == 0, 1 << 30, np.where(value > 0, positive, (1 << 31) - 1 - positive))


def tanh(value: Int64Array) -> Int64Array:
    """tanh(value / 2^27) * 2^31 for int32 values, from (1 - e) / (1 + e) with e = exp(-2 |value|)."""
    magnitude = _saturate((_half_reciprocal(exp_negative(-np.abs(value), 5)) - (1 << 29)) << 2)
    return np.where(value == 0, 0, np.where(value > 0, magnitude, -magnitude))
