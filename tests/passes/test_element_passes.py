"""Passes over element-wise integer operators keep every byte: tables composed, views sunk, broadcasts narrowed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, DType, TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.indexing import ArgMax
from npuc.ops.integer.rescale import Rescale
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window
from npuc.passes import INTEGER_PASSES, run_passes

RANGE = (-128, 127)
HALF = Rescale(1518500250, 32)
SUM = QAdd(20, HALF, HALF, Rescale(1 << 30, 49), 3, -4, 5, RANGE)
PRODUCT = QMul(Rescale(1518500250, 36), -7, 2, 1, RANGE)


def graph_of(
    inputs: dict[str, tuple[DType, tuple[int, ...]]], nodes: list[tuple[Op, tuple[str, ...], str]],
    constants: dict[str, Array] | None = None,
) -> Graph:  # fmt: skip
    """Operators in order; the last one's result is the output."""
    constants = constants or {}
    values = {name: TensorType(dtype, shape) for name, (dtype, shape) in inputs.items()}
    values |= {name: TensorType(array.dtype.name, array.shape) for name, array in constants.items()}  # type: ignore[arg-type]
    made = []
    for op, operands, output in nodes:
        values[output] = op.infer(*(values[name] for name in operands))[0]
        made.append(Node(output, op, operands, (output,)))
    return verify(Graph("g", tuple(made), values, constants, tuple(inputs), (nodes[-1][2],)))


def folded(graph: Graph, seed: int = 0) -> Graph:
    """The graph behind the integer passes, which must give the same bytes."""
    rng, feeds = np.random.default_rng(seed), {}
    for name in graph.inputs:
        dtype = np.dtype(graph.values[name].dtype)
        feeds[name] = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, graph.values[name].shape, dtype, True)
    result = run_passes(graph, INTEGER_PASSES)
    (output,) = graph.outputs
    assert np.array_equal(evaluate(result, feeds)[output], evaluate(graph, feeds)[output])
    return result


def kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes]


def table(seed: int) -> Lookup:
    return Lookup(tuple(np.random.default_rng(seed).integers(-128, 128, 256).tolist()))


def test_a_chain_of_tables_sums_and_products_is_one_table() -> None:
    graph = graph_of(
        {"x": ("uint8", (1, 5, 4, 3))},
        [
            (table(1), ("x",), "a"),
            (Transpose((0, 3, 1, 2)), ("a",), "b"),
            (SUM, ("b", "k"), "c"),
            (PRODUCT, ("c", "c"), "d"),
            (table(2), ("d",), "y"),
        ],
        {"k": np.full((1, 3, 1, 1), 9, np.int8)},
    )
    assert kinds(folded(graph)) == ["Lookup", "Transpose"]


def test_a_lone_sum_stays_a_sum_and_one_behind_a_convolution_joins_it() -> None:
    constants: dict[str, Array] = {"k": np.full((1, 1, 1, 1), 9, np.int8)}
    alone = graph_of({"x": ("int8", (1, 3, 4, 5))}, [(SUM, ("x", "k"), "y")], constants)
    assert kinds(folded(alone)) == ["QAdd"]
    conv = QConv(Window((1, 1)), 1, 0, 3, (1 << 30,) * 2, (36,) * 2, True, RANGE)
    constants |= {"w": np.ones((2, 3, 1, 1), np.int8), "b": np.zeros(2, np.int32)}
    behind = graph_of({"x": ("int8", (1, 3, 4, 5))}, [(conv, ("x", "w", "b"), "c"), (SUM, ("c", "k"), "y")], constants)
    assert kinds(folded(behind)) == ["QConv"]


def test_a_table_with_two_users_joins_both_or_stays() -> None:
    inputs: dict[str, tuple[DType, tuple[int, ...]]] = {"x": ("int8", (1, 2, 3, 4))}
    both = graph_of(inputs, [(table(1), ("x",), "a"), (table(2), ("a",), "b"), (table(3), ("a",), "c"),
                             (PRODUCT, ("b", "c"), "y")])  # fmt: skip
    assert kinds(folded(both)) == ["Lookup", "Lookup", "QMul"]
    other = graph_of(inputs, [(table(1), ("x",), "a"), (table(2), ("a",), "b"), (PRODUCT, ("a", "b"), "y")])
    assert kinds(folded(other)) == ["Lookup", "Lookup", "QMul"]


def test_equal_views_sink_below_a_product() -> None:
    view = Transpose((0, 2, 3, 1))
    graph = graph_of(
        {"a": ("int8", (1, 3, 4, 5)), "b": ("int8", (1, 3, 4, 5))},
        [
            (view, ("a",), "c"),
            (view, ("b",), "d"),
            (PRODUCT, ("c", "d"), "e"),
            (Transpose((0, 3, 1, 2)), ("e",), "y"),
        ],
    )
    assert kinds(folded(graph)) == ["QMul"]


def test_what_repeats_along_an_axis_is_computed_once() -> None:
    row, column = np.meshgrid(np.arange(6, dtype=np.int8), np.arange(7, dtype=np.int8), indexing="ij")
    graph = graph_of(
        {"p": ("int8", (1, 4, 1, 1)), "q": ("int8", (1, 4, 1, 1))},
        [
            (SUM, ("rows", "p"), "a"),
            (PRODUCT, ("a", "a"), "b"),
            (SUM, ("columns", "q"), "c"),
            (SUM, ("b", "c"), "y"),
        ],
        {"rows": row[None, None], "columns": column[None, None]},
    )
    result = folded(graph)
    widest = [result.values[node.outputs[0]].shape for node in result.nodes]
    assert widest.count((1, 4, 6, 7)) == 1, "only the last sum has all rows and columns"


@given(st.integers(65, 400), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3))
def test_a_long_search_finds_the_first_largest_element(n: int, before: int, after: int, spread: int) -> None:
    graph = graph_of(
        {"x": ("int8", (before, n, after))},
        [(table(spread) if spread else Lookup((5,) * 256), ("x",), "a"), (ArgMax(1), ("a",), "y")],
    )
    result = folded(graph, n)
    assert "QMaxPool" in kinds(result) or all(n % piece for piece in range(2, n) if piece * piece >= n and piece <= 256)


def test_short_searches_stay_whole() -> None:
    assert kinds(folded(graph_of({"x": ("int8", (2, 64))}, [(ArgMax(1), ("x",), "y")]))) == ["ArgMax"]
    flat = graph_of({"x": ("int8", (2, 8, 1, 1))}, [(Reshape((2, 8)), ("x",), "a"), (ArgMax(1), ("a",), "y")])
    assert "QMaxPool" not in kinds(folded(flat))
