"""The normative arithmetic against scalar implementations written from the kernels it must equal."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa import arithmetic
from isa.arithmetic import Addition, Rescale

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT8 = st.integers(-128, 127)
MULTIPLIER = st.integers(1 << 30, (1 << 31) - 1)
SHIFT = st.integers(2, 62)
RESCALE = st.builds(Rescale, MULTIPLIER, st.integers(31, 62))


def truncate(numerator: int, denominator: int) -> int:
    """C's division."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator >= 0) == (denominator > 0) else -quotient


def high_mul(a: int, b: int) -> int:
    """gemmlowp's saturating rounding doubling high multiplication of int32."""
    if a == b == -(1 << 31):
        return (1 << 31) - 1
    return truncate(a * b + ((1 << 30) if a * b >= 0 else 1 - (1 << 30)), 1 << 31)


def divide_by_pot(value: int, exponent: int) -> int:
    """gemmlowp's rounding division by a power of two."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (1 if value < 0 else 0)
    return (value >> exponent) + (1 if value & mask > threshold else 0)


def gemmlowp_rescale(value: int, factor: Rescale) -> int:
    """TensorFlow Lite's MultiplyByQuantizedMultiplier with double rounding; its shift is 31 - ours."""
    left = max(31 - factor.shift, 0)
    return divide_by_pot(high_mul(value << left, factor.multiplier), max(factor.shift - 31, 0))


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def scalar_add(a: int, b: int, c: Addition, sign: int) -> int:
    first = gemmlowp_rescale((a - c.first_zero_point) << c.left_shift, c.first)
    second = gemmlowp_rescale((b - c.second_zero_point) << c.left_shift, c.second)
    return clamp(gemmlowp_rescale(first + sign * second, c.result) + c.output_zero_point, c.low, c.high)


@given(INT32, MULTIPLIER, SHIFT)
def test_single_rounding_is_half_up_of_the_exact_product(value: int, multiplier: int, shift: int) -> None:
    expected = math.floor(Fraction(value * multiplier, 1 << shift) + Fraction(1, 2))
    assert arithmetic.apply_scale(value, multiplier, shift, False) == expected


@given(INT32, MULTIPLIER, SHIFT)
def test_double_rounding_equals_gemmlowp(value: int, multiplier: int, shift: int) -> None:
    if shift < 31:  # gemmlowp's left shift must not overflow int32
        value >>= 31 - shift
    assert arithmetic.rescale(value, multiplier, shift) == gemmlowp_rescale(value, Rescale(multiplier, shift))


@pytest.mark.parametrize("shift", range(2, 63))
def test_every_tie_of_both_signs_and_the_extremes(shift: int) -> None:
    multiplier = 1 << 30
    unit = max(shift - 31, 0)
    ties = {sign * ((2 * k + 1) << unit) for k in range(9) for sign in (1, -1)}
    near = {tie + offset for tie in ties for offset in (-1, 0, 1)} | {0}
    extremes = {-(1 << 31), (1 << 31) - 1} if shift >= 31 else set()
    values = [v for v in sorted(near | extremes) if -(1 << 31) <= v << max(31 - shift, 0) < 1 << 31]
    double = arithmetic.apply_scale(np.array(values), multiplier, shift, True)
    assert double.tolist() == [gemmlowp_rescale(value, Rescale(multiplier, shift)) for value in values]
    single = arithmetic.apply_scale(np.array(values), multiplier, shift, False)
    assert single.tolist() == [math.floor(Fraction(v * multiplier, 1 << shift) + Fraction(1, 2)) for v in values]


def test_ties_of_the_two_roundings_differ_only_below_zero() -> None:
    values = np.array([-3, -1, 1, 3])
    assert arithmetic.apply_scale(values, 1 << 30, 31, False).tolist() == [-1, 0, 1, 2]
    assert arithmetic.apply_scale(values, 1 << 30, 31, True).tolist() == [-1, 0, 1, 2]
    assert arithmetic.apply_scale(values * 2, 1 << 30, 32, False).tolist() == [-1, 0, 1, 2]
    assert arithmetic.apply_scale(values * 2, 1 << 30, 32, True).tolist() == [-2, -1, 1, 2]


@given(st.lists(INT32, min_size=1), st.data())
def test_requantize_takes_a_scale_for_each_channel(acc: list[int], data: st.DataObject) -> None:
    factors = data.draw(st.lists(RESCALE, min_size=len(acc), max_size=len(acc)))
    low, high = sorted(data.draw(st.tuples(INT8, INT8)))
    zero_point = data.draw(INT8)
    got = arithmetic.requantize(
        np.array(acc)[:, None],
        np.array([factor.multiplier for factor in factors])[:, None],
        np.array([factor.shift for factor in factors])[:, None],
        zero_point, low, high, True,
    )  # fmt: skip
    expected = [clamp(gemmlowp_rescale(a, f) + zero_point, low, high) for a, f in zip(acc, factors, strict=True)]
    assert got[:, 0].tolist() == expected


@given(st.floats(2.0**-32, 2.0**28))
def test_quantized_multiplier_is_within_half_a_unit(real: float) -> None:
    factor = arithmetic.quantize_multiplier(real)
    assert 1 << 30 <= factor.multiplier < 1 << 31
    assert 2 <= factor.shift <= 62
    assert abs(Fraction(real) * (1 << factor.shift) - factor.multiplier) <= Fraction(1, 2)


@pytest.mark.parametrize(("real", "expected"), [
    (0.0, Rescale(0, 31)), (2.0**-33, Rescale(0, 31)), (2.0**-32, Rescale(1 << 30, 62)), (1.0, Rescale(1 << 30, 30)),
    (math.nextafter(1.0, 0.0), Rescale(1 << 30, 30)), (2.0**28, Rescale(1 << 30, 2)),
])  # fmt: skip
def test_quantized_multiplier_at_its_limits(real: float, expected: Rescale) -> None:
    assert arithmetic.quantize_multiplier(real) == expected


@pytest.mark.parametrize("real", [-1.0, math.inf, math.nan, 2.0**29])
def test_quantized_multiplier_refuses_what_it_cannot_hold(real: float) -> None:
    with pytest.raises(ValueError, match="scale factor"):
        arithmetic.quantize_multiplier(real)


@given(st.builds(Addition, st.just(20), RESCALE, RESCALE, RESCALE, INT8, INT8, INT8, INT8, INT8))
def test_sum_difference_and_residual_equal_the_scalar_kernel(c: Addition) -> None:
    edge = np.array([-128, -127, -1, 0, 1, 2, 126, 127])
    a, b = (grid.ravel() for grid in np.meshgrid(edge, edge))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    c = Addition(c.left_shift, c.first, c.second, c.result, c.first_zero_point, c.second_zero_point,
                 c.output_zero_point, min(c.low, c.high), max(c.low, c.high))  # fmt: skip
    assert arithmetic.add(a, b, c).tolist() == [scalar_add(x, y, c, 1) for x, y in pairs]
    assert arithmetic.sub(a, b, c).tolist() == [scalar_add(x, y, c, -1) for x, y in pairs]
    assert arithmetic.residual(a, b, c).tolist() == [scalar_add(x, y, c, 1) for x, y in pairs]


@given(INT8, INT8, INT8, INT8, INT8, RESCALE)
def test_product_equals_the_scalar_kernel(a: int, b: int, za: int, zb: int, zero_point: int, factor: Rescale) -> None:
    expected = clamp(gemmlowp_rescale((a - za) * (b - zb), factor) + zero_point, -128, 127)
    assert arithmetic.mul(np.array([a]), np.array([b]), za, zb, factor, zero_point, -128, 127).tolist() == [expected]


@given(st.integers(-(1 << 20), 1 << 20), st.integers(1, 4096))
def test_average_rounds_like_c(total: int, count: int) -> None:
    half = count // 2
    expected = truncate(total + half, count) if total > 0 else truncate(total - half, count)
    assert arithmetic.divide_rounded(total, count) == expected
    assert arithmetic.average_pool(total, count, -100, 90) == clamp(expected, -100, 90)


@given(st.integers(1, 1 << 14), st.integers(-(1 << 22), 1 << 22), MULTIPLIER, st.integers(20, 62), INT8)
def test_mean_folds_the_count_into_the_multiplier(
    count: int, total: int, multiplier: int, shift: int, zero_point: int
) -> None:
    k = min(math.floor(math.log2(count)), 32, 31 + (31 - shift))
    folded = Rescale(truncate(multiplier << k, count), shift + k)
    expected = clamp(gemmlowp_rescale(total, folded) + zero_point, -128, 127)
    assert arithmetic.mean(total, count, Rescale(multiplier, shift), zero_point, -128, 127) == expected


def scalar_exp(value: int) -> int:
    """gemmlowp's exp_on_negative_values for 5 integer bits."""
    if value == 0:
        return (1 << 31) - 1
    low = (value & ((1 << 24) - 1)) - (1 << 24)
    x = (low << 5) + (1 << 28)
    x2 = high_mul(x, x)
    x3, x4 = high_mul(x2, x), high_mul(x2, x2)
    tail = divide_by_pot(high_mul(divide_by_pot(x4, 2) + x3, 715827883) + x2, 1)
    result = 1895147668 + high_mul(1895147668, x + tail)
    for exponent in range(-2, 5):
        if (low - value) & (1 << (26 + exponent)):
            result = high_mul(result, round(math.exp(-(2.0**exponent)) * (1 << 31)))
    return result


def scalar_softmax(row: list[int], multiplier: int, left_shift: int) -> list[int]:
    """TensorFlow Lite Micro's reference softmax, int8 to int8."""
    top = max(row)
    smallest = -math.floor(31 * (1 << 26) / (1 << left_shift))
    exps = {d: scalar_exp(high_mul(d << left_shift, multiplier)) for d in {v - top for v in row} if d >= smallest}
    total = sum(divide_by_pot(exps[v - top], 12) for v in row if v - top in exps)
    zeros = 32 - total.bit_length()
    half = ((total << zeros) - (1 << 31) + (1 << 31)) // 2
    x = 1515870810 + high_mul(half, -1010580540)
    for _ in range(3):
        x += clamp(high_mul(x, (1 << 29) - high_mul(half, x)) << 2, -(1 << 31), (1 << 31) - 1)
    inverse = clamp(x << 1, -(1 << 31), (1 << 31) - 1)
    return [
        clamp(divide_by_pot(high_mul(inverse, exps[v - top]), 12 - zeros + 23) - 128, -128, 127)
        if v - top in exps else -128
        for v in row
    ]  # fmt: skip


@given(st.lists(INT8, min_size=1, max_size=40), st.floats(1e-4, 4.0))
def test_softmax_equals_the_scalar_kernel(row: list[int], scale: float) -> None:
    multiplier, left_shift = arithmetic.softmax_scale(1.0, scale)
    got = arithmetic.softmax(np.array(row, np.int8)[None], multiplier, left_shift, 1)
    assert got[0].tolist() == scalar_softmax(row, multiplier, left_shift)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_approximates_the_real_one_along_any_axis(axis: int, rng: np.random.Generator) -> None:
    value = rng.integers(-128, 128, (5, 6, 7)).astype(np.int8)
    got = arithmetic.softmax(value, *arithmetic.softmax_scale(1.0, 0.05), axis)
    real = np.exp(0.05 * value.astype(np.float64))
    real /= real.sum(axis=axis, keepdims=True)
    assert np.abs((got + 128) / 256 - real).max() <= 1 / 256


def test_lookup_is_indexed_from_minus_128() -> None:
    table = np.arange(256).astype(np.int16)
    assert arithmetic.lookup(table, np.array([-128, 0, 127], np.int8)).tolist() == [0, 128, 255]


def test_float_boundary_rounds_ties_as_each_front_end_does() -> None:
    value = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    assert arithmetic.quantize(value, 1.0, 0, np.int8, half_even=True).tolist() == [-2, -2, 0, 0, 2, 2]
    assert arithmetic.quantize(value, 1.0, 0, np.int8, half_even=False).tolist() == [-3, -2, -1, 1, 2, 3]
    below = np.nextafter(np.float32(0.5), np.float32(0))
    assert arithmetic.quantize(below, 1.0, 0, np.int8, half_even=False) == 0


def test_float_boundary_divides_in_float32_and_clamps() -> None:
    value = np.float32(0.35)
    expected = np.rint(np.float32(value / np.float32(0.1)))
    assert arithmetic.quantize(value, 0.1, 3, np.uint8, half_even=True) == int(expected) + 3
    infinite = np.array([-np.inf, np.inf, 3e38], np.float32)
    assert arithmetic.quantize(infinite, 1e-3, 5, np.int8, half_even=True).tolist() == [-128, 127, 127]
    with pytest.raises(ValueError, match="NaN"):
        arithmetic.quantize(np.float32("nan"), 1.0, 0, np.int8, half_even=True)


@given(st.integers(-128, 127), st.integers(-128, 127), st.floats(2.0**-20, 2.0**10, width=32))
def test_dequantized_values_quantize_to_themselves(value: int, zero_point: int, scale: float) -> None:
    real = arithmetic.dequantize(np.array([value], np.int8), scale, zero_point)
    assert real.dtype == np.float32
    for half_even in (True, False):
        assert arithmetic.quantize(real, scale, zero_point, np.int8, half_even).tolist() == [value]
