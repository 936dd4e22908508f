"""Rules on small models built as records: structure, shapes that do not fit, order of operators."""

from collections.abc import Sequence

import numpy as np
import pytest

from npuc.errors import ImportFailure, UnsupportedOp
from npuc.graph.graph import Graph, evaluate
from npuc.graph.types import Array
from npuc.importer.tflite import build_graph
from npuc.importer.tflite_model import TfliteModel, TfliteOperator, TfliteTensor
from npuc.importer.tflite_site import same_pads

TYPES = {"int8": "INT8", "int32": "INT32"}
WINDOW = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1,
          "FusedActivationFunction": 0}  # fmt: skip


def tensor(shape: Sequence[int], scale: float = 0.5, zero_point: int = 3) -> TfliteTensor:
    return TfliteTensor(-1, "t", "INT8", tuple(shape), (scale,), (zero_point,), None)


def constant(array: Array, *scales: float) -> TfliteTensor:
    return TfliteTensor(-1, "k", TYPES[array.dtype.name], array.shape, scales, (0,) * len(scales), array)


def integers(*values: int) -> TfliteTensor:
    return constant(np.array(values, np.int32))


def model(
    tensors: Sequence[TfliteTensor], operators: Sequence[TfliteOperator], inputs: Sequence[int], outputs: Sequence[int]
) -> TfliteModel:
    numbered = (TfliteTensor(i, f"{t.name}{i}", t.dtype, t.shape, t.scales, t.zero_points, t.data)
                for i, t in enumerate(tensors))  # fmt: skip
    return TfliteModel(tuple(numbered), tuple(operators), tuple(inputs), tuple(outputs))


def single(kind: str, operands: Sequence[TfliteTensor], output: TfliteTensor, **options: float) -> Graph:
    """Graph of one operator; its inputs are the operands without data."""
    n = len(operands)
    operator = TfliteOperator(0, kind, tuple(range(n)), (n,), options)
    inputs = [i for i, operand in enumerate(operands) if operand.data is None]
    return build_graph(model([*operands, output], [operator], inputs, [n]), "single")


def run(graph: Graph, *arrays: Array) -> Array:
    return evaluate(graph, dict(zip(graph.inputs, arrays, strict=True)))[graph.outputs[0]]


def random_int8(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-128, 128, shape).astype(np.int8)


@pytest.mark.parametrize("shape", [(1, 3, 4, 2), (3, 2), (5,), (2, 3, 4)])
def test_pad_writes_the_zero_point(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x = random_int8(rng, *shape)
    pads = [(i % 2, i + 1) for i in range(len(shape))]
    expected = np.pad(x, pads, constant_values=3)
    rows = constant(np.array(pads, np.int32))
    assert np.array_equal(run(single("PAD", [tensor(shape), rows], tensor(expected.shape)), x), expected)


@pytest.mark.parametrize("perm", [(0, 3, 1, 2), (0, 2, 3, 1), (3, 2, 1, 0), (0, 1, 2, 3), (-4, -1, 1, 2)])
def test_transpose_permutes_the_axes_of_the_file(perm: tuple[int, ...], rng: np.random.Generator) -> None:
    x = random_int8(rng, 2, 3, 4, 5)
    expected = x.transpose(perm)
    graph = single("TRANSPOSE", [tensor(x.shape), integers(*perm)], tensor(expected.shape))
    assert np.array_equal(run(graph, x), expected)


def test_inverse_transposes_and_reshapes_leave_nothing(rng: np.random.Generator) -> None:
    tensors = [tensor((1, 4, 5, 3)), tensor((1, 3, 4, 5)), tensor((1, 4, 5, 3)), tensor((60, 1)), tensor((1, 4, 5, 3)),
               integers(0, 3, 1, 2), integers(0, 2, 3, 1), integers(60, 1)]  # fmt: skip
    steps = [("TRANSPOSE", (0, 5), 1), ("TRANSPOSE", (1, 6), 2), ("RESHAPE", (2, 7), 3), ("RESHAPE", (3,), 4)]
    operators = [TfliteOperator(i, kind, operands, (output,), {}) for i, (kind, operands, output) in enumerate(steps)]
    graph = build_graph(model(tensors, operators, [0], [4]), "views")
    assert not graph.nodes
    x = random_int8(rng, 1, 4, 5, 3)
    assert np.array_equal(run(graph, x), x)


@pytest.mark.parametrize(("first", "second"), [
    ((1, 3, 4, 2), (1, 3, 4, 2)), ((1, 3, 4, 2), (2,)), ((1, 3, 4, 2), (1, 1, 1, 2)), ((5, 2), (1, 2)), ((7,), (7,)),
    ((2, 3, 4), (3, 1)),
])  # fmt: skip
def test_add_broadcasts_in_the_order_of_the_file(
    first: tuple[int, ...], second: tuple[int, ...], rng: np.random.Generator
) -> None:
    a, b = random_int8(rng, *first), random_int8(rng, *second)
    output = tensor(np.broadcast_shapes(first, second), 1.0, -4)
    graph = single("ADD", [tensor(first), tensor(second, 0.25, -7)], output, FusedActivationFunction=1)
    real = (a.astype(np.float64) - 3) * 0.5 + (b.astype(np.float64) + 7) * 0.25
    expected = np.clip(np.floor(real + 0.5) - 4, -4, 127)
    got = run(graph, a, b)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1


def test_add_takes_a_constant_operand(rng: np.random.Generator) -> None:
    a, b = random_int8(rng, 1, 3, 4, 2), random_int8(rng, 2)
    image = tensor(a.shape, 1.0, 0)
    graph = single("ADD", [image, constant(b, 1.0)], image, FusedActivationFunction=0)
    assert np.array_equal(run(graph, a), np.clip(a.astype(int) + b, -128, 127))


@pytest.mark.parametrize(("activation", "expected"), [(0, (-128, 127)), (1, (3, 127)), (2, (1, 5)), (3, (3, 15))])
def test_fused_activations_become_clamps(activation: int, expected: tuple[int, int], rng: np.random.Generator) -> None:
    x = random_int8(rng, 1, 4, 4, 3)
    graph = single("MAX_POOL_2D", [tensor(x.shape)], tensor(x.shape), **WINDOW | {
        "FilterHeight": 1, "FilterWidth": 1, "FusedActivationFunction": activation})  # fmt: skip
    assert np.array_equal(run(graph, x), np.clip(x, *expected))


@pytest.mark.parametrize(("size", "kernel", "stride", "dilation", "expected"), [
    (96, 3, 2, 1, (0, 1)), (49, 10, 2, 1, (4, 5)), (5, 3, 1, 2, (2, 2)), (5, 1, 2, 1, (0, 0)), (1, 3, 1, 1, (1, 1)),
])  # fmt: skip
def test_same_padding_puts_the_odd_pixel_after(
    size: int, kernel: int, stride: int, dilation: int, expected: tuple[int, int]
) -> None:
    assert same_pads(size, kernel, stride, dilation) == expected


@pytest.mark.parametrize(("channels", "multiplier", "groups"), [(1, 4, 1), (3, 1, 3), (3, 2, 3)])
def test_depth_multiplier_follows_the_input_channel(
    channels: int, multiplier: int, groups: int, rng: np.random.Generator
) -> None:
    x, weights = random_int8(rng, 1, 2, 2, channels), random_int8(rng, 1, 1, 1, channels * multiplier)
    operands = [tensor(x.shape, 1.0, 3), constant(weights, 1 / 64)]
    graph = single("DEPTHWISE_CONV_2D", operands, tensor((1, 2, 2, weights.size), 1.0, 0), **WINDOW)
    convolution = next(node.op for node in graph.nodes if node.op.kind == "QConv")
    assert f"groups={groups}" in str(convolution)
    real = (x.astype(np.float64) - 3).repeat(multiplier, axis=3) * weights / 64
    assert np.abs(run(graph, x) - np.clip(real, -128, 127)).max() <= 0.76


X, K, ONE = tensor((1, 4, 4, 3)), constant(np.ones((2, 1, 1, 3), np.int8), 0.5), tensor((1, 4, 4, 2))


@pytest.mark.parametrize(("kind", "operands", "output", "reason"), [
    ("CONV_2D", [tensor(()), K], ONE, "rank 0"),
    ("CONV_2D", [X], ONE, "input 1 is missing"),
    ("CONV_2D", [X, K], tensor((1, 4, 4, 5)), "is declared"),
    ("CONV_2D", [X, constant(np.ones((2, 1, 1, 4), np.int8), 0.5)], ONE, "4 input channels on 3"),
    ("CONV_2D", [X, constant(np.ones((2, 1, 1, 3), np.int8), 0.5, 0.5, 0.5)], ONE, "3 weight scales"),
    ("CONV_2D", [X, K, integers(1, 2, 3)], ONE, "bias"),
    ("CONV_2D", [TfliteTensor(0, "x", "INT8", (1, 4, 4, 3), (), (), None), K], ONE, "0 scales"),
    ("PAD", [X, integers(0, 0)], X, "pads"),
    ("TRANSPOSE", [X, integers(0, 0, 1, 2)], X, "no permutation"),
    ("RESHAPE", [X], tensor((5, 5)), "element count"),
    ("SOFTMAX", [X], tensor((1, 4, 4, 3), 1 / 256, -128), "options are missing"),
])  # fmt: skip
def test_operands_that_do_not_fit_are_named(
    kind: str, operands: list[TfliteTensor], output: TfliteTensor, reason: str
) -> None:
    with pytest.raises(ImportFailure, match=reason) as failure:
        single(kind, operands, output, **WINDOW)
    assert failure.value.node == f"{kind}#0"


@pytest.mark.parametrize(("kind", "operands", "output", "reason"), [
    ("CONV_2D", [X, tensor((2, 1, 1, 3))], ONE, "depend on the inputs"),
    ("LOGISTIC", [X], X, "need 0.00390625 and -128"),
    ("RESIZE_NEAREST_NEIGHBOR", [X, integers(6, 6)], tensor((1, 6, 6, 3)), "whole factors"),
    ("SOFTMAX", [X], X, "1/256"),
    ("SOFTMAX", [tensor((1, 5000))], tensor((1, 5000), 1 / 256, -128), "limit 4095"),
    ("RESHAPE", [X], tensor((48,), 0.7), "scale"),
    ("SVDF", [X], X, "no rule"),
])  # fmt: skip
def test_well_formed_operators_without_meaning_are_unsupported(
    kind: str, operands: list[TfliteTensor], output: TfliteTensor, reason: str
) -> None:
    with pytest.raises(UnsupportedOp, match=reason):
        single(kind, operands, output, Beta=1.0, AlignCorners=False, **WINDOW)


def test_cycles_and_second_writers_are_refused() -> None:
    tensors = [X, X, X]
    forward, back = TfliteOperator(0, "RESHAPE", (2,), (1,), {}), TfliteOperator(1, "RESHAPE", (1,), (2,), {})
    with pytest.raises(ImportFailure, match="before an operator writes it"):
        build_graph(model(tensors, [forward, back], [0], [2]), "cycle")
    twice = [TfliteOperator(i, "RESHAPE", (0,), (1,), {}) for i in range(2)]
    with pytest.raises(ImportFailure, match="written already"):
        build_graph(model(tensors, twice, [0], [1]), "twice")
