"""Each rule: what a float operator becomes, and that its values stay within a step or so."""

import logging
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration import QuantTable, quantize_range, sqnr_db
from npuc.errors import QuantizationError
from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv
from npuc.passes import STRUCTURE_PASSES, run_passes
from npuc.ptq.quantize import quantize
from tests.onnx_models import floats, node
from tests.ptq.networks import float_graph, kinds, normal, only, outputs_of, quantized, samples_for, step_of

IMAGE = (1, 3, 8, 8)
W = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)


def conv(x: str, y: str, **attributes: Any) -> onnx.NodeProto:
    return node("Conv", [x, "w"], [y], **attributes)


def close(graph: Graph, db: float = 33, samples: dict[str, Array] | None = None) -> Graph:
    """Quantize; every output has that ratio of signal to error. Eight bits of a normal distribution are good for 40."""
    samples = samples or samples_for(graph)
    integer = quantized(graph, samples)
    expected, got = FloatEvaluator(graph, graph.outputs)(samples), outputs_of(integer, samples)
    for name in graph.outputs:
        assert sqnr_db(expected[name], got[name]) >= db
    return integer


@pytest.mark.parametrize("activation", ["Relu", "Clip"])
def test_a_clamp_after_a_convolution_is_absorbed(activation: str) -> None:
    inputs = ["c", "", "high"] if activation == "Clip" else ["c"]
    nodes = [conv("x", "c"), node(activation, inputs, ["y"])]
    graph = close(float_graph(nodes, {"x": IMAGE}, w=W, high=np.array(1, np.float32)))
    assert kinds(graph) == ["QConv"]


def test_clamp_bounds_inside_the_range_are_codes() -> None:
    nodes = [conv("x", "c"), node("Clip", ["c", "low", "high"], ["y"])]
    graph = float_graph(nodes, {"x": IMAGE}, w=W, low=np.float32(-1), high=np.float32(2))
    table = QuantTable("0" * 64, "by hand", 1, {"x": quantize_range(-4, 4), "y": quantize_range(-4, 3.96875)})
    op = only(quantize(graph, table), "QConv").op
    assert isinstance(op, QConv)
    assert op.clamp == (-32, 64)


def test_a_convolution_with_two_users_keeps_its_value() -> None:
    nodes = [conv("x", "c"), node("Relu", ["c"], ["y"]), node("Neg", ["c"], ["z"])]
    graph = close(float_graph(nodes, {"x": IMAGE}, ["y", "z"], w=W))
    assert sorted(kinds(graph)) == ["Lookup", "Lookup", "QConv"]


def test_a_convolution_that_is_an_output_keeps_its_value() -> None:
    nodes = [conv("x", "c"), node("Relu", ["c"], ["y"])]
    assert kinds(close(float_graph(nodes, {"x": IMAGE}, ["y", "c"], w=W))) == ["QConv", "Lookup"]


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh", "Softsign"])
def test_a_function_after_a_convolution_is_a_table(function: str) -> None:
    graph = float_graph([conv("x", "c"), node(function, ["c"], ["y"])], {"x": IMAGE}, w=0.2 * W)
    assert kinds(close(graph, 30)) == ["QConv", "Lookup"]


def test_an_expression_of_one_value_is_one_table() -> None:
    nodes = [
        node("Sigmoid", ["x"], ["s"]),
        node("Mul", ["x", "s"], ["m"]),
        node("Div", ["m", "k"], ["d"]),
        node("Sub", ["one", "d"], ["y"]),
    ]
    graph = close(float_graph(nodes, {"x": IMAGE}, k=np.float32(3), one=np.float32(1)))
    assert kinds(graph) == ["Lookup"]


@given(st.lists(st.sampled_from(["Relu", "Tanh", "Exp", "Abs", "Neg", "Sigmoid"]), min_size=1, max_size=6))
def test_a_chain_is_the_float_function_of_each_code(functions: list[str]) -> None:
    nodes = [node(function, [f"v{i}"], [f"v{i + 1}"]) for i, function in enumerate(functions)]
    name = f"v{len(functions)}"
    graph = float_graph(nodes, {"v0": (1, 256)}, [name])
    table = QuantTable("0" * 64, "by hand", 1, {"v0": quantize_range(-2, 2), name: quantize_range(-8, 8)})
    integer = quantize(graph, table)
    x = integer.values["v0"].quant
    assert x is not None
    codes = (np.float32(x.scale) * (np.arange(-128, 128) - x.zero_point)).astype(np.float32)[None]
    expected = np.clip(FloatEvaluator(graph, [name])({"v0": codes})[name], -8, 8)
    got = outputs_of(integer, {"v0": codes})[name]
    assert np.abs(got - expected).max() <= 0.501 * max(step_of(integer, name), 0)


def test_a_value_that_only_tables_read_covers_what_they_distinguish() -> None:
    nodes = [conv("x", "c"), node("HardSigmoid", ["c"], ["y"])]
    graph = float_graph(nodes, {"x": IMAGE}, w=W)
    samples = samples_for(graph)
    assert np.abs(FloatEvaluator(graph, ["c"])(samples)["c"]).max() > 10
    assert 4.9 < 255 * step_of(close(graph, 30, samples), "c") < 5.1


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 3, 1, 1), (1, 1, 8, 8)])
def test_arithmetic_of_two_tensors(kind: str, shape: tuple[int, ...]) -> None:
    graph = float_graph([node(kind, ["a", "b"], ["s"]), node("Relu", ["s"], ["y"])], {"a": IMAGE, "b": shape})
    assert kinds(close(graph)) == ["QMul" if kind == "Mul" else "QAdd"]


@pytest.mark.parametrize(("kind", "order"), [("Add", "xk"), ("Sub", "kx"), ("Mul", "xk"), ("Div", "xk")])
@pytest.mark.parametrize("shape", [(1, 6), (1, 5, 6), (1, 4, 5, 6), (1, 2, 4, 5, 6)])
def test_arithmetic_with_a_constant_tensor_of_any_rank(kind: str, order: str, shape: tuple[int, ...]) -> None:
    k = np.linspace(1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    close(float_graph([node(kind, list(order), ["y"])], {"x": shape}, k=k))


def test_a_concat_gives_all_its_inputs_one_scale_through_pooling_and_views() -> None:
    nodes = [
        conv("x", "a", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"]),
        node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", ["z"], ["t"], perm=[0, 1, 3, 2]),
        node("Concat", ["m", "t", "k"], ["y"], axis=1),
        node("Sigmoid", ["r"], ["u"]),
    ]
    k = np.full((1, 1, 4, 4), 50, np.float32)
    graph = close(float_graph(nodes, {"x": IMAGE, "z": (1, 2, 4, 4)}, ["y", "u"], w=W, k=k))
    scales = {graph.values[name].quant for name in ("r", "m", "z", "t", "y")}
    assert len(scales) == 1
    assert step_of(graph, "y") >= 50 / 255


def test_a_softmax_in_a_concat_takes_the_common_scale() -> None:
    nodes = [node("Softmax", ["x"], ["s"], axis=1), node("Concat", ["s", "x"], ["y"], axis=1)]
    graph = close(float_graph(nodes, {"x": (1, 5)}))
    assert kinds(graph) == ["Reshape", "QSoftmax", "Lookup", "Reshape", "Concat"]


@pytest.mark.parametrize(("shape", "axis"), [((1, 5), 1), ((1, 4, 5), 1), ((1, 4, 5), 2), ((1, 4, 2, 3), 1),
                                            ((1, 2, 3, 2, 2), 2)])  # fmt: skip
def test_softmax_of_any_rank_has_scale_1_256(shape: tuple[int, ...], axis: int) -> None:
    graph = close(float_graph([node("Softmax", ["x"], ["y"], axis=axis)], {"x": shape}))
    assert step_of(graph, "y") == 1 / 256


@pytest.mark.parametrize(("kernel", "kind"), [((2, 2), "QAveragePool"), ((8, 8), "QMean")])
def test_an_average_over_the_whole_image_gets_a_scale_of_its_own(kernel: tuple[int, int], kind: str) -> None:
    graph = close(float_graph([node("AveragePool", ["x"], ["y"], kernel_shape=kernel)], {"x": IMAGE}))
    assert kinds(graph) == [kind]
    assert (graph.values["x"].quant == graph.values["y"].quant) == (kind == "QAveragePool")


def test_a_pad_value_is_covered_and_becomes_a_code() -> None:
    nodes = [node("Pad", ["x", "pads", "value"], ["y"])]
    pads = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    graph = close(float_graph(nodes, {"x": IMAGE}, pads=pads, value=np.float32(-7)))
    assert kinds(graph) == ["Pad"]


# Public bug cases -----------------------------------------------------------------------------------------------------


def test_an_all_zero_channel_and_an_all_zero_activation() -> None:
    w, b = floats(0, 0, 1, -1).reshape(2, 2, 1, 1), floats(0.25, 0)
    graph = float_graph([node("Conv", ["x", "w", "b"], ["y"])], {"x": (1, 2, 1, 1)}, w=w, b=b)
    samples = {"x": floats(3, 1).reshape(1, 2, 1, 1)}
    integer = close(graph, samples=samples)
    np.testing.assert_allclose(outputs_of(integer, samples)["y"].reshape(-1), [0.25, 2], atol=step_of(integer, "y"))
    close(graph, samples={"x": np.zeros((1, 2, 1, 1), np.float32)})


@pytest.mark.parametrize("dense", [False, True])
def test_a_bias_beyond_int32_widens_the_weight_scale(dense: bool, caplog: pytest.LogCaptureFixture) -> None:
    bias = floats(5, -4.5)
    if dense:
        x: tuple[int, ...] = (1, 1)
        w: Array = floats(1e-7, -1e-7).reshape(1, 2)
        graph = float_graph([node("Gemm", ["x", "w", "b"], ["y"])], {"x": x}, w=w, b=bias.reshape(1, 2))
    else:
        x = (1, 1, 1, 1)
        w = floats(1e-7, -1e-7).reshape(2, 1, 1, 1)
        graph = float_graph([node("Conv", ["x", "w", "b"], ["y"])], {"x": x}, w=w, b=bias)
    with caplog.at_level(logging.WARNING):
        close(graph, samples={"x": np.linspace(-64, 63, 32, dtype=np.float32).reshape(32, *x[1:])})
    assert "weight scale enlarged" in caplog.text


def test_an_outlier_weight_costs_its_own_channel_only_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    w = (0.35 * np.random.default_rng(0).standard_normal((8, 8, 3, 3))).astype(np.float32)
    w[3, 0, 0, 0] = -15.6
    with caplog.at_level(logging.WARNING):
        graph = quantized(float_graph([conv("x", "y")], {"x": (1, 8, 6, 6)}, w=w))
    assert "channel 3" in caplog.text
    assert "channel 2" not in caplog.text
    op, weights = only(graph, "QConv").op, graph.constants[only(graph, "QConv").inputs[1]]
    assert isinstance(op, QConv)
    for channel in set(range(8)) - {3}:
        scale = np.abs(w[channel]).max() / 127
        assert sqnr_db(w[channel], weights[channel] * scale) > 30


def test_an_accumulator_cannot_overflow(caplog: pytest.LogCaptureFixture) -> None:
    k = 147_456
    graph = float_graph([conv("x", "y")], {"x": (1, k, 1, 1)}, w=np.ones((1, k, 1, 1), np.float32))
    with caplog.at_level(logging.WARNING):
        integer = quantized(graph, {"x": np.linspace(0, 1, k, dtype=np.float32).reshape(1, k, 1, 1)})
    weights = integer.constants[only(integer, "QConv").inputs[1]].astype(np.int64)
    assert np.abs(weights).sum() * 255 < 2**31
    assert "accumulators could overflow" in caplog.text


def test_a_sum_of_operands_with_unequal_scales() -> None:
    graph = float_graph([node("Add", ["a", "b"], ["s"]), node("Relu", ["s"], ["y"])], {"a": (1, 4), "b": (1, 4)})
    ranges = {"a": (0.052, -3), "b": (0.099, 5), "y": (0.049, -128)}
    tensors = {
        name: quantize_range(scale * (-128 - zero), scale * (127 - zero)) for name, (scale, zero) in ranges.items()
    }
    integer = quantize(graph, QuantTable("0" * 64, "by hand", 1, tensors))
    a = np.float32(0.052) * (floats(100, -100, 20, 127) + 3)
    b = np.float32(0.099) * (floats(20, -30, 60, 5) - 5)
    got = outputs_of(integer, {"a": a[None], "b": b[None]})["y"][0] / 0.049 - 128
    assert np.abs(got - [12, -128, 8, 10]).max() < 0.1


# Floats ---------------------------------------------------------------------------------------------------------------


def test_nodes_without_an_integer_form_stay_float_and_pass_floats_to_each_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nodes = [
        node("MatMul", ["a", "b"], ["m"], name="product"),
        node("Div", ["m", "a"], ["d"], name="quotient"),
        node("Relu", ["d"], ["r"]),
        node("Sigmoid", ["r"], ["y"]),
    ]
    graph = float_graph(nodes, {"a": (4, 4), "b": (4, 4)})
    samples = {name: normal((1, 4), n=4, seed=i) + 3 for i, name in enumerate("ab")}
    integer = run_passes(quantized(graph, samples), STRUCTURE_PASSES)
    assert kinds(integer) == ["Dequantize", "Dequantize", "MatMul", "Div", "Relu", "Quantize", "Lookup"]
    reasons = [record.getMessage() for record in caplog.records]
    assert reasons == ["product: no integer operator computes it; it stays float32",
                       "quotient: divisor a is computed, must be a constant; it stays float32"]  # fmt: skip


def test_an_output_that_a_float_operator_computes_stays_float32() -> None:
    same = np.eye(3, dtype=np.float32)[:, :, None, None]
    graph = float_graph([conv("x", "c"), node("Div", ["c", "x"], ["y"])], {"x": IMAGE}, w=same)
    samples = {"x": np.abs(normal(IMAGE)) + 1}
    integer = quantized(graph, samples)
    assert kinds(integer) == ["QConv", "Dequantize", "Dequantize", "Div"]
    assert (integer.values["y"].dtype, integer.values["y"].quant) == ("float32", None)
    assert np.abs(outputs_of(integer, samples)["y"] - 1).max() < 0.05


# Refusals -------------------------------------------------------------------------------------------------------------


def test_a_table_of_another_model_is_refused() -> None:
    graph = float_graph([conv("x", "y")], {"x": IMAGE}, w=W)
    with pytest.raises(QuantizationError, match="lacks 1 tensors: y"):
        quantize(graph, QuantTable("0" * 64, "by hand", 1, {"x": quantize_range(-1, 1)}))


def test_quantizing_twice_gives_the_same_graph() -> None:
    graph = float_graph([conv("x", "c"), node("Sigmoid", ["c"], ["y"])], {"x": IMAGE}, w=W)
    assert str(quantized(graph)) == str(quantized(graph))


def test_a_deep_network_of_tables_needs_no_deep_recursion() -> None:
    nodes = [node("Sigmoid", [f"v{i}"], [f"v{i + 1}"]) for i in range(1500)]
    graph = float_graph(nodes, {"v0": (1, 2)}, ["v1500"])
    assert kinds(quantized(graph, {"v0": normal((1, 2))})) == ["Lookup"]
