"""Quantized convolution against one written with scalar integers, output stage included."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.integer.accumulate import matmul_exact
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.integer.rescale import Rescale, addition_rescales, quantize_multiplier
from npuc.ops.window import Window


def scalar_sum(x: Array, weights: Array, op: QConv, index: tuple[int, int, int, int]) -> int:
    """One accumulator, bias not included."""
    n, channel, row, column = index
    window, depth = op.window, weights.shape[1]
    first = channel // (weights.shape[0] // op.groups) * depth
    total = 0
    for c, i, j in np.ndindex(depth, *window.kernel):
        y = row * window.stride[0] + i * window.dilation[0] - window.pads[0]
        z = column * window.stride[1] + j * window.dilation[1] - window.pads[1]
        if 0 <= y < x.shape[2] and 0 <= z < x.shape[3]:
            total += (int(x[n, first + c, y, z]) - op.input_zero_point) * int(weights[channel, c, i, j])
    return total


def scalar_rescale(value: int, multiplier: int, shift: int, double: bool) -> int:
    """TOSA's apply_scale_32."""
    extra = (1 << 30 if value >= 0 else -(1 << 30)) if double and shift > 31 else 0
    return (value * multiplier + (1 << (shift - 1)) + extra) >> shift


def scalar_output(acc: int, channel: int, other: int, op: QConv) -> int:
    r = op.residual
    zero_point, (low, high) = (r.mid_zero_point, r.mid_clamp) if r else (op.output_zero_point, op.clamp)
    scaled = scalar_rescale(acc, op.multipliers[channel], op.shifts[channel], op.double_round)
    y = min(max(scaled + zero_point, low), high)
    if op.table is not None:
        y = op.table[y + 128]
    if r is None:
        return y
    first = scalar_rescale((y - r.mid_zero_point) << r.left_shift, r.accumulator.multiplier, r.accumulator.shift, True)
    second = scalar_rescale((other - r.other_zero_point) << r.left_shift, r.other.multiplier, r.other.shift, True)
    total = scalar_rescale(first + second, r.result.multiplier, r.result.shift, True) + op.output_zero_point
    return min(max(total, op.clamp[0]), op.clamp[1])


SIZE = st.integers(1, 3)
PAD = st.integers(0, 2)
INT8 = st.integers(-128, 127)
RANGE = st.sampled_from([(-128, 127), (-100, 90), (-5, 5)])
WIDE = st.sampled_from([(-32768, 32767), (-3000, 90)])


@st.composite
def cases(draw: st.DrawFn) -> tuple[QConv, list[Array]]:
    """An operator with operands that fit it."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    groups, depth, multiple = draw(st.sampled_from([(1, 1, 3), (1, 5, 2), (2, 2, 2), (3, 1, 1), (3, 1, 2)]))
    oc, dtype = groups * multiple, draw(st.sampled_from([np.int8, np.uint8]))
    window = Window(draw(st.tuples(SIZE, SIZE)), draw(st.tuples(SIZE, SIZE)), draw(st.tuples(SIZE, SIZE)),
                    draw(st.tuples(PAD, PAD, PAD, PAD)))  # fmt: skip
    size = [(k - 1) * d + draw(SIZE) for k, d in zip(window.kernel, window.dilation, strict=True)]
    factors = [quantize_multiplier(0.5 ** draw(st.integers(1, 9)) * 0.9) for _ in range(oc)]
    table = tuple(rng.integers(-128, 128, 256).tolist()) if draw(st.booleans()) else None
    is_wide = table is None and draw(st.booleans())
    residual = None
    if draw(st.booleans()):
        scales = addition_rescales(0.5, 0.3, 0.7)
        residual = Residual(12 if is_wide else 20, *scales, draw(INT8), draw(WIDE if is_wide else RANGE), draw(INT8))
    op = QConv(
        window, groups, draw(INT8) + (128 if dtype is np.uint8 else 0), draw(INT8),
        tuple(f.multiplier for f in factors), tuple(f.shift for f in factors),
        draw(st.booleans()), draw(WIDE if is_wide else RANGE), table, residual, dtype="int16" if is_wide else "int8",
    )  # fmt: skip
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max + 1, (2, groups * depth, *size)).astype(dtype)
    weights = rng.integers(-128, 128, (oc, depth, *window.kernel)).astype(np.int8)
    bias = rng.integers(-2000, 2000, oc).astype(np.int32)
    span = 1 << (15 if is_wide else 7)
    other = rng.integers(-span, span, (2, oc, *window.output_shape(*size))).astype(op.dtype)
    arrays: list[Array] = [x, weights, bias, other]
    return op, arrays if residual else arrays[:3]


def types_of(arrays: list[Array]) -> list[TensorType]:
    return [TensorType(array.dtype.name, array.shape) for array in arrays]  # type: ignore[arg-type]


@settings(max_examples=60)
@given(cases())
def test_convolution_equals_scalar_integers(case: tuple[QConv, list[Array]]) -> None:
    op, arrays = case
    (y,) = op.reference(*arrays)
    (inferred,) = op.infer(*types_of(arrays))
    assert (inferred.dtype, inferred.shape) == (y.dtype.name, y.shape)
    x, weights, bias = arrays[:3]
    for index in np.ndindex(*y.shape):
        acc = scalar_sum(x, weights, op, index) + int(bias[index[1]])
        other = int(arrays[3][index]) if op.residual else 0
        assert y[index] == scalar_output(acc, index[1], other, op)


@pytest.mark.parametrize("k", [1, 513, 514, 515, 1543])
def test_sums_of_the_largest_products_are_exact(k: int) -> None:
    rows, columns = np.full((1, k), -128, np.float32), np.full((k, 1), 255, np.float32)
    assert matmul_exact(rows, columns).item() == -128 * 255 * k


def test_largest_accumulators_keep_every_bit(rng: np.random.Generator) -> None:
    x = rng.choice(np.array([-128, 127], np.int8), (1, 2048, 3, 3))
    weights = rng.choice(np.array([-128, 127], np.int8), (4, 2048, 3, 3))
    op = QConv(Window((3, 3)), 1, -128, 0, (1 << 30,) * 4, (40,) * 4, True, (-128, 127))
    acc = ((x.astype(np.int64) + 128) * weights.astype(np.int64)).sum(axis=(1, 2, 3)).reshape(1, 4, 1, 1)
    expected = op.output_stage(acc)
    assert np.array_equal(op.reference(x, weights, np.zeros(4, np.int32))[0], expected)


DENSE = QConv(Window((1, 1)), 1, 3, 0, (1 << 30,) * 2, (31,) * 2, True, (-128, 127))
HALF = Rescale(1 << 30, 31)
X = TensorType("int8", (1, 4, 1, 1), QuantParams(0.5, 3))
W = TensorType("int8", (2, 4, 1, 1))
B = TensorType("int32", (2,))


def test_dense_layer_is_a_1x1_convolution() -> None:
    assert DENSE.infer(X, W, B) == (TensorType("int8", (1, 2, 1, 1)),)
    assert not DENSE.is_depthwise
    assert replace(DENSE, groups=2).is_depthwise


@pytest.mark.parametrize(("op", "operands", "reason"), [
    (DENSE, (X, W), "2 operands, need 3"),
    (replace(DENSE, input_zero_point=4), (X, W, B), "zero point 3, its operator 4"),
    (replace(DENSE, input_zero_point=200), (X, W, B), "outside the range"),
    (replace(DENSE, groups=2), (X, W, B), "in 2 groups"),
    (replace(DENSE, groups=2), (X, replace(W, shape=(2, 2, 1, 1)), B), "use dense weights"),
    (replace(DENSE, multipliers=(1 << 30,)), (X, W, B), "1 multipliers"),
    (replace(DENSE, shifts=(1, 31)), (X, W, B), "shift outside"),
    (replace(DENSE, clamp=(5, 4)), (X, W, B), "clamp"),
    (replace(DENSE, table=(0,) * 255), (X, W, B), "table of 255"),
    (DENSE, (replace(X, dtype="int16"), W, B), "int16"),
    (DENSE, (replace(X, shape=(4, 1, 1)), W, B), "rank 3"),
    (DENSE, (X, replace(W, shape=(2, 4, 1, 2)), B), "kernel"),
    (DENSE, (X, W, replace(B, shape=(3,))), "bias"),
    (replace(DENSE, residual=Residual(20, HALF, HALF, HALF, 0, (-128, 127), 0)),
     (X, W, B, replace(X, quant=None)), "differs from the output"),
])  # fmt: skip
def test_operands_that_do_not_fit_are_named(op: QConv, operands: tuple[TensorType, ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        op.infer(*operands)


def test_a_large_layer_takes_a_fraction_of_a_second(rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (1, 128, 56, 56)).astype(np.int8)
    weights = rng.integers(-128, 128, (128, 128, 3, 3)).astype(np.int8)
    op = QConv(Window((3, 3), pads=(1, 1, 1, 1)), 1, 5, 0, (1 << 30,) * 128, (45,) * 128, True, (-128, 127))
    start = time.process_time()
    op.reference(x, weights, np.zeros(128, np.int32))
    assert time.process_time() - start < 2
