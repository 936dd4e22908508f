"""Rules beyond convolutions: real arithmetic within one step, moves of elements exactly, unsigned models shifted."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from npuc.errors import UnsupportedOp
from npuc.graph.graph import Graph, evaluate, evaluate_stream
from npuc.graph.types import Array
from npuc.importer.tflite import build_graph
from npuc.importer.tflite_model import Option, TfliteModel, TfliteOperator, TfliteTensor
from tests.importer.test_tflite_rules import WINDOW, constant, integers, model, random_int8, run, single, tensor


def real(array: Array, scale: float, zero_point: int) -> Array:
    return (array.astype(np.float64) - zero_point) * scale


def several(kind: str, operands: Sequence[TfliteTensor], outputs: Sequence[TfliteTensor], **options: float) -> Graph:
    """Graph of one operator with several outputs."""
    n = len(operands)
    places = tuple(range(n, n + len(outputs)))
    operator = TfliteOperator(0, kind, tuple(range(n)), places, options)
    inputs = [i for i, operand in enumerate(operands) if operand.data is None]
    return build_graph(model([*operands, *outputs], [operator], inputs, places), "several")


def test_differences_and_products_are_within_one_step(rng: np.random.Generator) -> None:
    a, b = random_int8(rng, 1, 4, 3, 6), random_int8(rng, 6)
    operands = [tensor(a.shape, 0.02, 3), tensor(b.shape, 0.05, -9)]
    x, y = real(a, 0.02, 3), real(b, 0.05, -9)
    for kind, expected, scale in (("SUB", x - y, 0.1), ("MUL", x * y, 0.12)):
        got = run(single(kind, operands, tensor(a.shape, scale, 5), FusedActivationFunction=0), a, b)
        assert np.abs(got - np.clip(expected / scale + 5, -128, 127)).max() <= 1


@pytest.mark.parametrize(("kind", "function", "scale", "zero_point"), [
    ("LOGISTIC", lambda x: 1 / (1 + np.exp(-x)), 1 / 256, -128), ("TANH", np.tanh, 1 / 128, 0),
])  # fmt: skip
@pytest.mark.parametrize("source", [(0.05, 7), (0.3, -128), (0.001, 0)])
def test_functions_of_one_value_are_within_one_step(
    kind: str, function: np.ufunc, scale: float, zero_point: int, source: tuple[float, int]
) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    got = run(single(kind, [tensor((256,), *source)], tensor((256,), scale, zero_point)), x)
    expected = np.clip(function(real(x, *source)) / scale + zero_point, -128, 127)
    assert np.abs(got - expected).max() <= 1


@pytest.mark.parametrize(("shape", "axes"), [((1, 4, 5, 3), (1, 2)), ((1, 4, 5, 3), (2,)), ((2, 4, 5, 3), (-3,)),
                                             ((2, 6, 3), (1,)), ((2, 6, 3), (0, 2)), ((1, 4, 5, 3), (3,))])  # fmt: skip
@pytest.mark.parametrize("keeps", [True, False])
def test_means_over_any_axes(
    shape: tuple[int, ...], axes: tuple[int, ...], keeps: bool, rng: np.random.Generator
) -> None:
    x = random_int8(rng, *shape)
    expected = x.mean(axis=axes, keepdims=keeps)
    got = run(single("MEAN", [tensor(shape), integers(*axes)], tensor(expected.shape)), x)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= 1


def test_parts_of_an_axis(rng: np.random.Generator) -> None:
    x = random_int8(rng, 2, 3, 6)
    parts = [tensor((2, 3, 2)), tensor((2, 3, 4))]
    graph = several("SPLIT_V", [tensor(x.shape), integers(2, -1), integers(-1)], parts)
    assert [evaluate(graph, {graph.inputs[0]: x})[name].tolist() for name in graph.outputs] == [
        x[..., :2].tolist(), x[..., 2:].tolist()]  # fmt: skip
    graph = several("SPLIT", [integers(1), tensor(x.shape)], [tensor((2, 1, 6))] * 3)
    assert [evaluate(graph, {graph.inputs[0]: x})[name].tolist() for name in graph.outputs] == [
        x[:, i : i + 1].tolist() for i in range(3)]  # fmt: skip
    graph = several("UNPACK", [tensor(x.shape)], [tensor((3, 6))] * 2, Axis=0)
    assert [evaluate(graph, {graph.inputs[0]: x})[name].tolist() for name in graph.outputs] == x.tolist()


def test_pack_adds_an_axis(rng: np.random.Generator) -> None:
    a, b = random_int8(rng, 3, 4), random_int8(rng, 3, 4)
    graph = single("PACK", [tensor(a.shape), tensor(b.shape)], tensor((3, 2, 4)), Axis=1)
    assert np.array_equal(run(graph, a, b), np.stack([a, b], axis=1))


def test_concatenation_rescales_inputs_of_another_scale(rng: np.random.Generator) -> None:
    a, b = random_int8(rng, 2, 3), random_int8(rng, 2, 3)
    graph = single("CONCATENATION", [tensor(a.shape, 0.5, 3), tensor(b.shape, 0.25, -7)], tensor((2, 6)), Axis=-1)
    got = run(graph, a, b)
    assert np.array_equal(got[:, :3], a)
    assert np.abs(got[:, 3:] - (real(b, 0.25, -7) / 0.5 + 3)).max() <= 0.5


@pytest.mark.parametrize(("begin", "end", "strides", "masks", "expected"), [
    ((0, -2), (0, 0), (1, 1), {"BeginMask": 1, "EndMask": 3}, np.s_[:, -2:]),
    ((1, 0), (2, 6), (1, 2), {"ShrinkAxisMask": 1}, np.s_[1, 0:6:2]),
    ((0, -1), (4, 6), (2, 1), {"ShrinkAxisMask": 2}, np.s_[0:4:2, -1]),
])  # fmt: skip
def test_strided_slices_are_those_of_python(
    begin: tuple[int, ...], end: tuple[int, ...], strides: tuple[int, ...], masks: dict[str, int],
    expected: tuple[slice | int, ...], rng: np.random.Generator,
) -> None:  # fmt: skip
    x = random_int8(rng, 4, 6)
    options = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0, **masks}
    operands = [tensor(x.shape), integers(*begin), integers(*end), integers(*strides)]
    assert np.array_equal(run(single("STRIDED_SLICE", operands, tensor(x[expected].shape), **options), x), x[expected])


def test_bilinear_resizing_interpolates(rng: np.random.Generator) -> None:
    x = random_int8(rng, 1, 3, 3, 2)
    operands = [tensor(x.shape), integers(5, 5)]
    got = run(single("RESIZE_BILINEAR", operands, tensor((1, 5, 5, 2)), AlignCorners=True, HalfPixelCenters=False), x)
    assert np.array_equal(got[:, ::2, ::2], x)
    between = (x[:, :-1].astype(int) + x[:, 1:]) / 2
    assert np.abs(got[:, 1::2, ::2] - between).max() <= 0.5


@pytest.mark.parametrize("half_pixel_centers", [False, True])
def test_bilinear_resizing_by_two_keeps_constants(half_pixel_centers: bool) -> None:
    x = np.full((1, 2, 3, 1), -77, np.int8)
    options = {"AlignCorners": False, "HalfPixelCenters": half_pixel_centers}
    graph = single("RESIZE_BILINEAR", [tensor(x.shape), integers(4, 6)], tensor((1, 4, 6, 1)), **options)
    assert (run(graph, x) == -77).all()


def unsigned(like: TfliteTensor, zero_point: int) -> TfliteTensor:
    return replace(like, dtype="UINT8", zero_points=(zero_point,))


def test_unsigned_convolutions_subtract_both_zero_points(rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, (1, 4, 4, 3)).astype(np.uint8)
    weights = rng.integers(0, 256, (2, 1, 1, 3)).astype(np.uint8)
    kernel = replace(constant(weights.view(np.int8), 0.01), dtype="UINT8", zero_points=(151,), data=weights)
    graph = single("CONV_2D", [unsigned(tensor(x.shape, 0.02), 130), kernel], unsigned(tensor((1, 4, 4, 2), 0.1), 9),
                   **WINDOW)  # fmt: skip
    expected = real(x, 0.02, 130) @ real(weights, 0.01, 151).reshape(2, 3).T / 0.1 + 9
    got = run(graph, x)
    assert got.dtype == np.uint8
    assert np.abs(got - np.clip(expected, 0, 255)).max() <= 0.51


def test_unsigned_averages_round_halves_up() -> None:
    x = np.array([[[[1], [2]]]], np.uint8)
    options = WINDOW | {"Padding": 1, "FilterHeight": 1, "FilterWidth": 2}
    graph = single("AVERAGE_POOL_2D", [unsigned(tensor(x.shape), 3)], unsigned(tensor((1, 1, 1, 1)), 3), **options)
    assert run(graph, x).tolist() == [[[[2]]]]


def test_a_float_function_between_quantized_values_is_one_table() -> None:
    tensors = [tensor((256,), 0.5, -128), replace(tensor((256,)), dtype="FLOAT32", scales=()), tensor((256,), 0.1, 3)]
    tensors.insert(2, tensors[1])
    steps = [TfliteOperator(i, kind, (i,), (i + 1,), {}) for i, kind in enumerate(("DEQUANTIZE", "SQRT", "QUANTIZE"))]
    graph = build_graph(model(tensors, steps, [0], [3]), "sqrt")
    assert [node.op.kind for node in graph.nodes] == ["Lookup"]
    x = np.arange(-128, 128).astype(np.int8)
    assert np.array_equal(run(graph, x), np.clip(np.rint(np.sqrt(real(x, 0.5, -128)) / 0.1) + 3, -128, 127))


def accumulator_model(kinds: Sequence[str] = ("VAR_HANDLE", "READ_VARIABLE", "ADD", "ASSIGN_VARIABLE")) -> TfliteModel:
    """total += x; the total is the output."""
    handle = replace(tensor(()), dtype="RESOURCE", scales=(), zero_points=())
    tensors = [tensor((4,), 1.0, 0), handle, tensor((4,), 1.0, 0), tensor((4,), 1.0, 0)]
    wiring = {"VAR_HANDLE": ((), (1,)), "READ_VARIABLE": ((1,), (2,)), "ADD": ((0, 2), (3,)),
              "ASSIGN_VARIABLE": ((1, 3), ())}  # fmt: skip
    options: dict[str, Option] = {"SharedName": "total", "FusedActivationFunction": 0}
    steps = [TfliteOperator(i, kind, *wiring[kind], options) for i, kind in enumerate(kinds)]
    return model(tensors, steps, [0], [3])


def test_variables_keep_their_value_from_call_to_call() -> None:
    graph = build_graph(accumulator_model(), "accumulator")
    samples = [{graph.inputs[0]: np.full(4, i, np.int8)} for i in (1, 2, 3)]
    totals = [int(outputs[graph.outputs[0]][0]) for outputs in evaluate_stream(graph, samples)]
    assert totals == [1, 3, 6]


def test_a_variable_that_is_written_before_it_is_read_is_refused() -> None:
    kinds = ("VAR_HANDLE", "ASSIGN_VARIABLE")
    with pytest.raises(UnsupportedOp, match="assigned before it is read"):
        build_graph(replace(accumulator_model(kinds), outputs=(0,), operators=tuple(
            replace(step, inputs=(1, 0)) if step.kind == "ASSIGN_VARIABLE" else step
            for step in accumulator_model(kinds).operators)), "early")  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1])
def test_arg_max_finds_the_first_of_equal_elements(axis: int) -> None:
    x = np.array([[5, 1, 5], [5, 9, 9]], np.int8)
    output = replace(tensor(x.argmax(axis=axis).shape), dtype="INT32", scales=())
    got = run(single("ARG_MAX", [tensor(x.shape), integers(axis)], output), x)
    assert got.dtype == np.int32
    assert np.array_equal(got, x.argmax(axis=axis))
