"""Models that are damaged, hostile or use what is not supported: one clear refusal each, never a crash."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuc.errors import ImportFailure, NpucError, UnsupportedOp
from npuc.graph.graph import evaluate
from npuc.importer.onnx import import_onnx
from tests.onnx_models import arange, floats, model, node


def simple() -> onnx.ModelProto:
    nodes = [node("Conv", ["x", "w"], ["c"], "conv"), node("Relu", ["c"], ["y"], "relu")]
    return model(nodes, {"x": [1, 1, 4, 4]}, ["y"], {"w": np.ones((1, 1, 3, 3), np.float32)})


@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"not a model at all", simple().SerializeToString()[:-40]],
                         ids=["empty", "zeros", "text", "truncated"])
def test_bytes_that_are_no_model_are_refused(data: bytes) -> None:
    with pytest.raises(ImportFailure):
        import_onnx(data)


def test_missing_file_is_refused(tmp_path: object) -> None:
    with pytest.raises(ImportFailure, match="cannot read"):
        import_onnx(f"{tmp_path}/none.onnx")


@settings(max_examples=150)
@given(st.integers(0, len(simple().SerializeToString()) - 1), st.integers(0, 255))
def test_a_changed_byte_is_imported_or_refused(place: int, value: int) -> None:
    data = bytearray(simple().SerializeToString())
    data[place] = value
    try:
        import_onnx(bytes(data))
    except NpucError as refusal:
        assert refusal.exit_status in (1, 2)  # noqa: PT017 - both outcomes are right


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [node("Relu", ["c"], ["y"]), node("Neg", ["x"], ["c"])]
    graph = import_onnx(model(nodes, {"x": [2]}, ["y"]))
    assert evaluate(graph, {"x": floats(-1, 1)})["y"].tolist() == [1, 0]


def test_duplicate_node_names_and_unused_outputs_are_accepted() -> None:
    nodes = [node("Relu", ["x"], ["a"], "same"), node("Neg", ["a"], ["y"], "same"),
             node("Split", ["x"], ["", ""], "one"), node("Split", ["x"], ["", ""], "two")]
    graph = import_onnx(model(nodes, {"x": [2]}, ["y"]))
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)


@pytest.mark.parametrize(("nodes", "message"), [
    ([node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second")], "cycle: first, second"),
    ([node("Relu", ["x"], ["b"]), node("Neg", ["x"], ["b"])], "'b' is defined twice"),
    ([node("Relu", ["x"], ["x"])], "'x' is defined twice"),
    ([node("Relu", ["nothing"], ["b"])], "'nothing' is never defined"),
    ([node("Relu", ["x"], ["c"])], "output 'b' is never defined"),
])  # fmt: skip
def test_graph_that_is_no_graph_is_refused(nodes: list[onnx.NodeProto], message: str) -> None:
    with pytest.raises(ImportFailure, match=message):
        import_onnx(model(nodes, {"x": [2]}, ["b"]))


@pytest.mark.parametrize("opset", [99, 6])
def test_operator_set_out_of_range_is_refused(opset: int) -> None:
    with pytest.raises(ImportFailure, match=f"operator set version {opset}, supported are 7 to"):
        import_onnx(model([node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"], opset=opset))


def test_unknown_domain_is_refused() -> None:
    nodes = [onnx.helper.make_node("FancyRelu", ["x"], ["y"], name="fancy", domain="com.example")]
    with pytest.raises(UnsupportedOp, match=r"fancy \(FancyRelu\): domain 'com.example'"):
        import_onnx(model(nodes, {"x": [2]}, ["y"]))


def test_everything_unsupported_is_in_one_report() -> None:
    nodes = [node("Det", ["x"], ["d"], "det"), node("LpPool", ["x"], ["l"], "lp", kernel_shape=[2, 2]),
             node("Resize", ["l", "", "scales"], ["r"], "resize", mode="linear"),
             node("Conv", ["r", "r"], ["y"], "dynamic")]
    source = model(nodes, {"x": [1, 1, 4, 4]}, ["y", "d"], {"scales": [1.0, 1.0, 2.0, 2.0]})
    with pytest.raises(UnsupportedOp) as report:
        import_onnx(source)
    lines = report.value.message.splitlines()
    assert lines[0] == "4 nodes cannot be compiled:"
    assert lines[1:] == [
        "  det (Det): operator Det is not supported",
        "  lp (LpPool): operator LpPool is not supported",
        "  resize (Resize): mode linear, allowed is nearest",
        "  dynamic (Conv): weight depends on the inputs, a constant is needed",
    ]


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Range", "Tile", "Mul", "MatMul", "Less"])
def test_a_few_bytes_cannot_ask_for_unbounded_memory(op: str) -> None:
    big = 1 << 40
    column_and_row = {"a": arange(1 << 16, 1), "b": arange(1, 1 << 16)}
    table: dict[str, dict[str, Any]] = {
        "ConstantOfShape": {"s": [big]},
        "Expand": {"v": [1.0], "s": [big]},
        "Tile": {"v": [1.0], "s": [big]},
        "Range": {"a": np.array(0, np.int64), "b": np.array(big, np.int64), "c": np.array(1, np.int64)},
    }
    constants = table.get(op, column_and_row)
    nodes = [node(op, list(constants), ["k"], "huge"), node("Add", ["x", "k"], ["y"])]
    with pytest.raises(UnsupportedOp, match="limit"):
        import_onnx(model(nodes, {"x": [1]}, ["y"], constants))


def test_constant_subgraphs_fold_with_operators_that_have_no_rule() -> None:
    nodes = [node("CumSum", ["k", "axis"], ["s"]), node("Max", ["s", "two"], ["m"]), node("Mul", ["x", "m"], ["y"])]
    constants: dict[str, Any] = {"k": [1.0, 1.0, 1.0], "axis": np.array(0, np.int64), "two": [2.0]}
    graph = import_onnx(model(nodes, {"x": [3]}, ["y"], constants))
    assert [node.op.kind for node in graph.nodes] == ["Mul"]
    assert evaluate(graph, {"x": np.ones(3, np.float32)})["y"].tolist() == [2, 2, 3]


def test_half_precision_weights_become_single() -> None:
    nodes = [node("Cast", ["k"], ["f"], to=1), node("Mul", ["x", "f"], ["y"])]
    graph = import_onnx(model(nodes, {"x": [2]}, ["y"], {"k": np.array([0.5, 2], np.float16)}))
    assert evaluate(graph, {"x": np.ones(2, np.float32)})["y"].tolist() == [0.5, 2]
