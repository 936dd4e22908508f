"""Every pass keeps values; each law is tried where it holds and where it does not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuc.errors import InvalidGraph
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.rewrite import Miss, Rewriter
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.importer.onnx import import_onnx
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Relu
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window
from npuc.passes import GRAPH_PASSES, STRUCTURE_PASSES, run_passes
from npuc.passes.axis_algebra import canonical, follow
from npuc.passes.rule import Misses, Pass, rewrite
from tests.onnx_models import arange, model, node


def graph_of(nodes: Sequence[Any], shape: Sequence[int], outputs: Sequence[str] = ("y",), **constants: Any) -> Graph:
    return import_onnx(model(nodes, {"x": shape}, outputs, constants))


def optimize(graph: Graph) -> Graph:
    """All passes; the values of the outputs must stay."""
    passed = run_passes(graph, GRAPH_PASSES)
    inputs = {x: np.random.default_rng(1).standard_normal(graph.type_of(x).shape).astype(np.float32)
              for x in graph.inputs}
    before, after = evaluate(graph, inputs), evaluate(passed, inputs)
    for name in graph.outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-5)
    return passed


def kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes]


W = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)


@pytest.mark.parametrize(("op", "order"), [("Add", "ck"), ("Add", "kc"), ("Sub", "ck"), ("Sub", "kc"), ("Mul", "ck"),
                                           ("Div", "ck")])
def test_a_constant_per_channel_folds_into_the_convolution(op: str, order: str) -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node(op, list(order), ["y"])]
    assert kinds(optimize(graph_of(nodes, (1, 3, 5, 5), w=W, k=arange(4, 1, 1) + 1))) == ["Conv"]


@pytest.mark.parametrize(("op", "order", "shape"), [("Div", "kc", (4, 1, 1)), ("Add", "ck", (3, 3)),
                                                   ("Add", "ck", (2, 4, 1, 1))])
def test_other_constants_do_not_fold(op: str, order: str, shape: tuple[int, ...]) -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node(op, list(order), ["y"])]
    graph = graph_of(nodes, (1, 3, 5, 5), w=np.abs(W), k=arange(*shape) + 1)
    inputs = {"x": np.ones((1, 3, 5, 5), np.float32)}
    passed = run_passes(graph, GRAPH_PASSES)
    assert kinds(passed) == ["Conv", op]
    np.testing.assert_allclose(evaluate(passed, inputs)["y"], evaluate(graph, inputs)["y"], rtol=1e-5)


def test_a_bias_folds_through_the_views_of_a_rank_3_dense_layer() -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "k"], ["a"]), node("Relu", ["a"], ["r"]),
             node("MatMul", ["r", "v"], ["y"])]
    graph = optimize(graph_of(nodes, (2, 5, 3), w=arange(3, 4), k=arange(4), v=arange(4, 6)))
    assert [kind for kind in kinds(graph) if kind not in ("Reshape", "Transpose")] == ["Conv", "Relu", "Conv"]
    assert kinds(graph)[kinds(graph).index("Conv") : -2] == ["Conv", "Relu", "Conv"]


def test_batch_norm_behind_a_padded_convolution_folds() -> None:
    names = ["g", "b", "m", "v"]
    nodes = [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("BatchNormalization", ["c", *names], ["y"])]
    constants: dict[str, Any] = {name: arange(4) + 1 for name in names}
    assert kinds(optimize(graph_of(nodes, (1, 3, 5, 5), w=W, **constants))) == ["Conv"]


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 5), (2, 4, 5, 3)])
def test_batch_norm_alone_becomes_a_depthwise_convolution(shape: tuple[int, ...]) -> None:
    names = ["g", "b", "m", "v"]
    nodes = [node("BatchNormalization", ["x", *names], ["y"])]
    constants: dict[str, Any] = {name: arange(4) + 1 for name in names}
    graph = optimize(graph_of(nodes, shape, **constants))
    assert [n.op.groups for n in graph.nodes if isinstance(n.op, Conv)] == [4]
    assert "BatchNorm" not in kinds(graph)


@pytest.mark.parametrize(("value", "pads", "left"), [(0.0, [0, 0, 1, 2, 0, 0, 3, 0], []),
                                                    (1.0, [0, 0, 1, 1] * 2, ["Pad"]),
                                                    (0.0, [0, 1, 0, 0, 0, 0, 0, 0], ["Pad"])])
def test_zero_pads_of_rows_and_columns_fold_into_the_window(value: float, pads: list[int], left: list[str]) -> None:
    channels = 3 - pads[1]
    nodes = [node("Pad", ["x", "p", "v"], ["q"]), node("Conv", ["q", "w"], ["y"], pads=[1, 0, 0, 1])]
    graph = graph_of(nodes, (1, channels, 5, 5), w=W, p=pads, v=np.array(value, np.float32))
    assert kinds(optimize(graph)) == [*left, "Conv"]


@pytest.mark.parametrize(("include", "own", "folds"), [(0, [0] * 4, True), (1, [1] * 4, True), (0, [1] * 4, False)])
def test_pads_fold_into_an_average_only_when_it_counts_them(include: int, own: list[int], folds: bool) -> None:
    nodes = [node("Pad", ["x", "p"], ["q"]),
             node("AveragePool", ["q"], ["y"], kernel_shape=[3, 3], pads=own, count_include_pad=include)]
    graph = optimize(graph_of(nodes, (1, 1, 5, 5), p=[0, 0, 1, 1, 0, 0, 1, 1]))
    assert kinds(graph) == (["AveragePool"] if folds else ["Pad", "AveragePool"])


@pytest.mark.parametrize("perm", [None, [0, 2, 3, 1], [0, 3, 1, 2]])
def test_dense_layer_on_an_image_becomes_a_convolution(perm: list[int] | None) -> None:
    first = [node("Transpose", ["x"], ["t"], perm=perm)] if perm else []
    nodes = [*first, node("Flatten", ["t" if perm else "x"], ["f"]), node("MatMul", ["f", "w"], ["y"])]
    weights = np.random.default_rng(2).standard_normal((60, 7)).astype(np.float32)
    graph = optimize(graph_of(nodes, (2, 3, 4, 5), w=weights))
    assert kinds(graph) == ["Conv", "Reshape"]
    assert graph.nodes[0].op == Conv(Window((4, 5)))


def test_equal_views_sink_below_a_sum() -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Conv", ["x", "v"], ["b"]),
             node("Transpose", ["a"], ["s"], perm=[0, 2, 3, 1]), node("Transpose", ["b"], ["t"], perm=[0, 2, 3, 1]),
             node("Add", ["s", "t"], ["u"]), node("Transpose", ["u"], ["y"], perm=[0, 3, 1, 2])]
    assert kinds(optimize(graph_of(nodes, (1, 3, 5, 5), w=W, v=2 * W))) == ["Conv", "Conv", "Add"]


def test_equal_work_and_equal_constants_are_shared() -> None:
    nodes = [node("Conv", ["x", "w"], ["a"]), node("Conv", ["x", "v"], ["b"]), node("Add", ["a", "b"], ["y"]),
             node("Neg", ["x"], ["dead"])]
    graph = optimize(graph_of(nodes, (1, 3, 5, 5), w=W, v=W.copy()))
    assert kinds(graph) == ["Conv", "Add"]
    assert len(graph.constants) == 2


shapes = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4).map(tuple)


@given(st.data(), shapes)
def test_chains_of_views_have_a_canonical_form(data: st.DataObject, shape: tuple[int, ...]) -> None:
    x = np.arange(int(np.prod(shape))).reshape(shape)
    y: Array = x
    ops: list[Reshape | Transpose] = []
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            ops.append(Transpose(tuple(data.draw(st.permutations(range(y.ndim))))))
        else:
            cut = data.draw(st.sampled_from([n for n in range(1, y.size + 1) if y.size % n == 0]))
            ops.append(Reshape(tuple(data.draw(st.permutations((1, cut, y.size // cut))))))
        (y,) = ops[-1].reference(y)
    axes = follow(ops, shape)
    if axes is not None:
        z = x
        short = canonical(axes, shape, y.shape)
        for op in short:
            (z,) = op.reference(z)
        assert np.array_equal(z, y)
        assert len(short) <= 3


def test_structure_passes_keep_the_quantization_of_integer_graphs() -> None:
    quant = QuantParams(0.5, 3)
    types = {"x": TensorType("int8", (1, 2, 3, 4), quant), "a": TensorType("int8", (1, 3, 4, 2), quant),
             "b": TensorType("int8", (1, 2, 3, 4), quant), "y": TensorType("int8", (1, 24), quant)}
    nodes = (Node("t", Transpose((0, 2, 3, 1)), ("x",), ("a",)), Node("u", Transpose((0, 3, 1, 2)), ("a",), ("b",)),
             Node("r", Reshape((1, 24)), ("b",), ("y",)))
    graph = run_passes(verify(Graph("q", nodes, types, {}, ("x",), ("y",))), STRUCTURE_PASSES)
    assert kinds(graph) == ["Reshape"]
    assert graph.type_of("y").quant == quant


def test_every_pass_states_its_law_and_has_its_own_name() -> None:
    assert all(step.law for step in GRAPH_PASSES)
    assert len({step.name for step in STRUCTURE_PASSES}) == len(STRUCTURE_PASSES)


def test_passes_report_why_a_rule_declined() -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Add", ["c", "k"], ["y"], "plus"), node("Relu", ["c"], ["z"])]
    reasons: dict[str, Miss] = {}

    def listen(name: str, _graph: Graph, misses: Misses) -> None:
        if name == "fold_affine_into_conv":
            reasons.update(misses)

    run_passes(graph_of(nodes, (1, 3, 5, 5), ("y", "z"), w=W, k=arange(4, 1, 1)), GRAPH_PASSES, listen)
    assert reasons["plus"] == Miss("c has other users, which need it as it is")


def test_a_pass_that_breaks_the_graph_is_named() -> None:
    @rewrite(Relu)
    def broken(_graph: Rewriter, node: Node) -> Node | Miss:
        """Nonsense."""
        return Node(node.name, node.op, ("missing",), node.outputs) if node.inputs != ("missing",) else Miss("done")

    steps: tuple[Pass, ...] = (broken,)
    with pytest.raises(InvalidGraph, match="missing is read before it is defined") as error:
        run_passes(graph_of([node("Relu", ["x"], ["y"])], (1,)), steps)
    assert error.value.stage == "broken"


def test_long_chains_take_linear_time() -> None:
    nodes: list[Any] = []
    value = "x"
    for i in range(3000):
        nodes += [node("Relu" if i % 2 else "Neg", [value], [f"r{i}"]), node("Identity", [f"r{i}"], [f"i{i}"])]
        value = f"i{i}"
    graph = graph_of([*nodes, node("Abs", [value], ["y"])], (2,))
    assert len(run_passes(graph, GRAPH_PASSES).nodes) == 3001
