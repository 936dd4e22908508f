"""Quantized pointwise operators, pooling, mean and softmax against scalar integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa import arithmetic
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import addition_rescales, quantize_multiplier
from npuc.ops.integer.softmax import SOFTMAX_QUANT, QSoftmax
from npuc.ops.op import Op
from npuc.ops.window import Window

FULL = (-128, 127)
CLAMP = st.sampled_from([FULL, (-20, 60)])
SEED = st.integers(0, 1 << 32)


def scalar_rescale(value: int, multiplier: int, shift: int) -> int:
    """TOSA's apply_scale_32 with double rounding."""
    extra = (1 << 30 if value >= 0 else -(1 << 30)) if shift > 31 else 0
    return (value * multiplier + (1 << (shift - 1)) + extra) >> shift


def random_int8(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def run(op: Op, *arrays: Array) -> Array:
    """Result of `reference`, after checking that `infer` foretells it."""
    (inferred,) = op.infer(*(TensorType("int8", array.shape) for array in arrays))
    (y,) = op.reference(*arrays)
    assert (inferred.dtype, inferred.shape) == (y.dtype.name, y.shape)
    return y


@given(SEED, st.booleans(), st.tuples(*[st.integers(-128, 127)] * 3), st.floats(0.01, 2), st.floats(0.01, 2), CLAMP)
def test_sum_and_difference_broadcast(
    seed: int, subtract: bool, zero_points: tuple[int, int, int], first: float, second: float, clamp: tuple[int, int]
) -> None:
    a, b = random_int8(seed, 2, 3, 1, 2), random_int8(seed + 1, 1, 3, 4, 2)
    op = QAdd(20, *addition_rescales(first, second, 0.7), *zero_points, clamp, subtract)
    y = run(op, a, b)
    for n, c, h, w in np.ndindex(2, 3, 4, 2):
        left = scalar_rescale((int(a[n, c, 0, w]) - zero_points[0]) << 20, op.first.multiplier, op.first.shift)
        right = scalar_rescale((int(b[0, c, h, w]) - zero_points[1]) << 20, op.second.multiplier, op.second.shift)
        total = left - right if subtract else left + right
        total = scalar_rescale(total, op.result.multiplier, op.result.shift) + zero_points[2]
        assert y[n, c, h, w] == min(max(total, clamp[0]), clamp[1])


@given(SEED, st.tuples(*[st.integers(-128, 127)] * 3), st.floats(1e-4, 0.5), CLAMP)
def test_product_broadcasts(seed: int, zero_points: tuple[int, int, int], real: float, clamp: tuple[int, int]) -> None:
    a, b = random_int8(seed, 1, 3, 2, 2), random_int8(seed + 1, 1, 3, 1, 1)
    factor = quantize_multiplier(real)
    y = run(QMul(factor, *zero_points, clamp), a, b)
    for _, c, h, w in np.ndindex(*y.shape):
        product = (int(a[0, c, h, w]) - zero_points[0]) * (int(b[0, c, 0, 0]) - zero_points[1])
        total = scalar_rescale(product, factor.multiplier, factor.shift) + zero_points[2]
        assert y[0, c, h, w] == min(max(total, clamp[0]), clamp[1])


def test_table_keeps_the_shape() -> None:
    table = tuple(-1 - value for value in range(-128, 128))
    y = run(Lookup(table), np.array([[-128, 0, 127]], np.int8))
    assert y.tolist() == [[127, -1, -128]]


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kernel = draw(st.tuples(*[st.integers(1, 3)] * 2))
    pads = [draw(st.integers(0, kernel[axis % 2] - 1)) for axis in range(4)]
    return Window(kernel, draw(st.tuples(*[st.integers(1, 3)] * 2)), (1, 1), (pads[0], pads[1], pads[2], pads[3]))


@settings(max_examples=60)
@given(SEED, windows(), CLAMP, st.booleans(), st.integers(-128, 127))
def test_pooling_equals_scalar_integers(
    seed: int, window: Window, clamp: tuple[int, int], include: bool, zero_point: int
) -> None:
    x = random_int8(seed, 1, 2, 5, 4)
    largest = run(QMaxPool(window, clamp), x)
    average = run(QAveragePool(window, clamp, include, zero_point), x)
    for _, c, row, column in np.ndindex(*largest.shape):
        top, left = row * window.stride[0] - window.pads[0], column * window.stride[1] - window.pads[1]
        rows = range(max(top, 0), min(top + window.kernel[0], 5))
        columns = range(max(left, 0), min(left + window.kernel[1], 4))
        inside = [int(x[0, c, i, j]) for i in rows for j in columns]
        assert largest[0, c, row, column] == min(max(*inside, inside[0], clamp[0]), clamp[1])
        padding = [zero_point] * (window.kernel[0] * window.kernel[1] - len(inside)) if include else []
        total, count = sum(inside + padding), len(inside + padding)
        rounded = int((total + count // 2) / count) if total > 0 else int((total - count // 2) / count)
        assert average[0, c, row, column] == min(max(rounded, clamp[0]), clamp[1])


@given(SEED, st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 3), st.integers(-128, 127), st.integers(-128, 127))
def test_mean_is_within_three_quarters_of_the_real_mean(
    seed: int, height: int, width: int, real: float, zero_point: int, output: int
) -> None:
    x = random_int8(seed, 2, 3, height, width)
    y = run(QMean(quantize_multiplier(real), zero_point, output, FULL), x)
    expected = (x.astype(np.float64) - zero_point).mean(axis=(2, 3), keepdims=True) * real + output
    assert np.abs(y - np.clip(expected, *FULL)).max() <= 0.76


def test_softmax_runs_over_channels() -> None:
    x = random_int8(1, 2, 10, 1, 3)
    scale = arithmetic.softmax_scale(1.0, 0.1)
    y = run(QSoftmax(*scale, axis=1), x)
    rows = x.transpose(0, 2, 3, 1).reshape(-1, 10)
    expected = np.array([arithmetic.softmax(row, *scale, 0) for row in rows])
    assert np.array_equal(y.transpose(0, 2, 3, 1).reshape(-1, 10), expected)
    assert QSoftmax(*scale, axis=1).infer(TensorType("int8", x.shape))[0].quant == SOFTMAX_QUANT


X = TensorType("int8", (1, 2, 5, 4), QuantParams(0.5, 3))
SCALES = addition_rescales(1.0, 1.0, 1.0)


@pytest.mark.parametrize(("op", "operands", "reason"), [
    (QAdd(20, *SCALES, 3, 0, 0, FULL), (X,), "1 operands"),
    (QAdd(20, *SCALES, 3, 0, 0, FULL), (X, X), "second operand has zero point 3"),
    (QMul(SCALES[0], 3, 3, 0, FULL), (X, TensorType("int8", (1, 3, 1, 1))), "broadcast"),
    (QMul(SCALES[0], 3, 3, 0, (-129, 0)), (X, X), "clamp"),
    (Lookup((0,) * 255), (X,), "table"),
    (QMaxPool(Window((2, 2), pads=(2, 0, 0, 0)), FULL), (X,), "without input"),
    (QAveragePool(Window((9, 2)), FULL), (X,), "window"),
    (QMean(SCALES[0], 4, 0, FULL), (X,), "zero point"),
    (QSoftmax(1 << 30, 20, axis=4), (X,), "axis 4"),
    (QSoftmax(1 << 30, 20, axis=1), (TensorType("int8", (1, 5000, 1, 1)),), "limit 4095"),
])  # fmt: skip
def test_operands_that_do_not_fit_are_named(op: Op, operands: tuple[TensorType, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        op.infer(*operands)
