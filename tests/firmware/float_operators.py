"""Random float operators as graphs of one node, with what an exact result is compared against."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from npuc.firmware.graph_runner import Backend, run_program
from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize, Quotient, SquareRoot, ToFloat
from npuc.ops.matmul import MatMul
from npuc.ops.normalize import BatchNorm, Softmax
from npuc.ops.op import Op
from npuc.ops.pool import AveragePool, MaxPool, SpatialMean
from npuc.ops.unary import FUNCTIONS, Unary
from tests.firmware.operators import GROUPS, SIZES, SMALL, Case, arrays, input_size, windows

RELATIVE = 1e-6
ABSOLUTE = 1e-42
"""A handful of the smallest numbers, where results are denormal."""

EXACT = (Quantize, Dequantize, ToFloat, SquareRoot, Relu, Clip, Add, Sub, Mul, Div, Quotient, MaxPool)
SPECIAL = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, 1e-40, -1e-44, 3e38, -3e38, 8388608.5,
                    16777216, 0.70710677, 1.4142135, 88.7, -103.9, 100.0], np.float32)  # fmt: skip
EXPONENTS = (-2.5, -2.0, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 1e9)
Drawn = tuple[Op, list[Array], tuple[int, ...]]


@st.composite
def reals(draw: st.DrawFn, shape: tuple[int, ...], *, is_finite: bool = False, is_number: bool = False) -> Array:
    """float32: normal ones, any bits, or special values among them."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    normal = (rng.standard_normal(shape) * 10.0 ** draw(st.integers(-3, 2))).astype(np.float32)
    kind = draw(st.sampled_from(["normal", "any", "special"]))
    if is_finite or kind == "normal":
        return normal
    bits = rng.integers(0, 1 << 32, shape, np.uint32).view(np.float32)
    chosen = np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), normal) if kind == "special" else bits
    return np.asarray(np.where(np.isnan(chosen), 1, chosen) if is_number else chosen, np.float32)


@st.composite
def borders(draw: st.DrawFn) -> Drawn:
    """Between integers and float32."""
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=6)))
    scale, kind = draw(st.sampled_from([0.5, 0.0078125, 1.7e-3, 3.1])), draw(st.sampled_from(["q", "d", "f"]))
    dtype = draw(st.sampled_from(["int8", "uint8", "int16"]))
    zero_point = draw(st.integers(-128, 127)) + 128 * (dtype == "uint8")
    if kind == "q":
        ties = draw(st.booleans())
        x = draw(arrays(shape, "int16")) * np.float32(scale / 2) if ties else draw(reals(shape, is_number=True))
        return Quantize(scale, zero_point, dtype), [x.astype(np.float32)], ()  # type: ignore[arg-type]
    if kind == "d":
        return Dequantize(scale, zero_point), [draw(arrays(shape, dtype))], ()
    wide = draw(st.sampled_from(["int8", "uint8", "int16", "int32", "int64", "bool"]))
    x = draw(arrays(shape, wide))
    return ToFloat(), [x if wide == "bool" else np.right_shift(x, draw(st.integers(0, 6)))], ()


@st.composite
def functions(draw: st.DrawFn) -> Drawn:
    name = draw(st.sampled_from([*FUNCTIONS, "square root", "relu", "clip"]))
    x = draw(reals(tuple(draw(st.lists(st.integers(1, 5), max_size=4)))))
    if name == "square root":
        return SquareRoot(), [x], ()
    if name == "relu":
        return Relu(), [x], ()
    if name == "clip":
        low = draw(st.sampled_from([-np.inf, -1.0, 0.0]))
        return Clip(low, draw(st.sampled_from([np.inf, 6.0, 0.5]))), [x], ()
    parameters = tuple(float(np.float32(default)) for _, default in FUNCTIONS[name].attributes)
    if name == "pow":
        parameters = (draw(st.sampled_from(EXPONENTS)),)
    return Unary(name, parameters), [x], ()


@st.composite
def arithmetic(draw: st.DrawFn) -> Drawn:
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=7)))
    shapes = [tuple(1 if draw(st.integers(0, 3)) == 0 else n for n in shape) for _ in range(2)]
    cut = draw(st.integers(0, len(shape) - 1))
    operands = [draw(reals(shapes[0])), draw(reals(shapes[1][cut:]))]
    return draw(st.sampled_from([Add(), Sub(), Mul(), Div(), Quotient()])), operands, draw(st.sampled_from([(), (1,)]))


@st.composite
def rows(draw: st.DrawFn) -> Drawn:
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)))
    op = draw(st.sampled_from([LogSoftmax(), Softmax(draw(st.integers(0, len(shape) - 1)))]))
    return op, [draw(reals(shape, is_finite=True))], ()


@st.composite
def sliding(draw: st.DrawFn) -> Drawn:
    kind = draw(st.sampled_from(["conv", "max", "average", "mean", "norm"]))
    if kind in ("mean", "norm"):
        x = draw(reals(draw(SIZES), is_finite=True))
        parameters = [draw(reals((x.shape[1],), is_finite=True)) for _ in range(4)]
        parameters[3] = np.abs(parameters[3])
        return (SpatialMean(), [x], ()) if kind == "mean" else (BatchNorm(1e-5), [x, *parameters], (1, 2, 3, 4))
    window = draw(windows(is_pool=kind != "conv"))
    size = input_size(window, draw(st.tuples(SMALL, SMALL)))
    if kind == "conv":
        groups, depth, multiple = draw(st.sampled_from(GROUPS))
        shapes = ((draw(st.integers(1, 2)), groups * depth, *size), (groups * multiple, depth, *window.kernel))
        operands = [draw(reals(shape, is_finite=True)) for shape in (*shapes, (groups * multiple,))]
        return Conv(window, groups), operands, (1, 2)
    x = draw(reals((draw(SMALL), draw(SMALL), *size), is_number=True, is_finite=kind == "average"))
    return (MaxPool(window) if kind == "max" else AveragePool(window, draw(st.booleans()))), [x], ()


@st.composite
def products(draw: st.DrawFn) -> Drawn:
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    m, k, n = draw(st.tuples(st.integers(1, 4), st.integers(1, 70), st.integers(1, 5)))
    first = tuple(1 if draw(st.integers(0, 3)) == 0 else size for size in batch)
    operands = [draw(reals(shape, is_finite=True)) for shape in ((*first, m, k), (*batch, k, n))]
    return MatMul(), operands, draw(st.sampled_from([(), (1,)]))


FLOAT_FAMILIES = {
    "border": borders,
    "function": functions,
    "arithmetic": arithmetic,
    "row": rows,
    "window": sliding,
    "product": products,
}


@st.composite
def float_cases(draw: st.DrawFn, families: tuple[str, ...] = tuple(FLOAT_FAMILIES)) -> Case:
    """Any float operator of these families."""
    op, operands, constants = draw(FLOAT_FAMILIES[draw(st.sampled_from(families))]())
    return Case(op, operands, constants, draw(st.none() | st.integers(0, 1 << 32)))


def run_case(case: Case, backend: Backend) -> Array:
    """The result by kernels."""
    program = case.program()
    feeds = {name: case.operands[int(name[1:])] for name in program.graph.inputs}
    return run_program(program, feeds, backend)["y"]


def _erfc(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erfc, otypes=[np.float64])(x))


def reference(case: Case) -> Array:
    """numpy's result, in float64 where that is another; 1 + erf(x) and 1 + tanh(x) without their cancellation."""
    op = case.op
    with np.errstate(all="ignore"):
        x = case.operands[0].astype(np.float64)
        if isinstance(op, EXACT):
            return np.asarray(op.reference(*case.operands)[0])
        if op == Unary("gelu"):
            return np.asarray(0.5 * x * _erfc(-x / math.sqrt(2)))
        if op == Unary("gelu_tanh"):
            return np.asarray(x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
        if isinstance(op, Softmax | LogSoftmax):  # differences from the largest value are rounded
            axis = op.axis if isinstance(op, Softmax) else -1
            rounded = case.operands[0] - case.operands[0].max(axis=axis, keepdims=True)
            return np.asarray(op.reference(rounded.astype(np.float64))[0])
        if isinstance(op, Unary):
            return np.asarray(FUNCTIONS[op.function].meaning(x, *op.parameters))
        return np.asarray(op.reference(*(operand.astype(np.float64) for operand in case.operands))[0])


Magnitude = Callable[[Case, Array], Array]

# What errors are relative to, where that is not the result: the terms that are added up.
MAGNITUDES: dict[type[Op], Magnitude] = {
    Conv: lambda case, y: _of_magnitudes(case),
    MatMul: lambda case, y: _of_magnitudes(case),
    AveragePool: lambda case, y: _of_magnitudes(case),
    SpatialMean: lambda case, y: _of_magnitudes(case),
    LogSoftmax: lambda case, y: np.maximum(np.abs(y), 1),
    BatchNorm: lambda case, y: _normalized_terms(case),
}


def _of_magnitudes(case: Case) -> Array:
    return reference(replace(case, operands=[np.abs(operand) for operand in case.operands]))


def _normalized_terms(case: Case) -> Array:
    x, scale, bias, mean, variance = (operand.astype(np.float64) for operand in case.operands)
    factor, columns = scale / np.sqrt(variance + 1e-5), (-1, 1, 1)
    offset = np.abs(bias) + np.abs(mean * factor)
    return np.asarray(np.abs(x * factor.reshape(columns)) + offset.reshape(columns))


def check_float(case: Case, got: Array) -> None:
    """A result is that of numpy: exactly where IEEE 754 says so, else within RELATIVE."""
    want = reference(case)
    if isinstance(case.op, EXACT):
        assert got.dtype == want.dtype
        assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f")
        return
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        magnitude = MAGNITUDES[type(case.op)](case, want) if type(case.op) in MAGNITUDES else np.abs(want)
        is_near = np.abs(got.astype(np.float64) - want) <= RELATIVE * magnitude + ABSOLUTE
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    assert np.all(is_near | same), f"{case.op}: {got[~(is_near | same)]} for {want[~(is_near | same)]}"
