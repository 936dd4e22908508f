"""Choose a layout for every tree of values that share bytes, by the port cost of all that touches them.

Trees are independent once copies stand where a view cannot be expressed, so the cheapest candidate of each tree is the
global optimum of the stated cost: port words of all reads and writes, plus a copy for every edge the candidate breaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from npuc.errors import DoesNotFit, InvalidGraph
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import ITEM_BYTES, Layout, TensorType
from npuc.layout.copies import copies_for_edges
from npuc.layout.forest import Edge, Forest, build_forest
from npuc.layout.strides import blocked, dense, is_row_major
from npuc.layout.trans_data import TransData
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose

COPY_WORDS = 4
"""A copy costs about this many port words per word of data (read, write, and 4 bytes a cycle in the vector unit)."""

VIEWS = (Reshape, Transpose, Slice, Concat, Pad)


@dataclass(frozen=True)
class Problem:
    """A graph with the trees of its forest, and what its layouts are for."""

    graph: Graph
    children: dict[str, list[Edge]]
    channel_block: int
    on_arm: Set[str]


@dataclass
class Choice:
    """One candidate for a tree: layouts of the members it reaches, edges it breaks, outputs it leaves out of order."""

    layouts: dict[str, Layout]
    cut: list[Edge]
    unordered: list[str]
    words: float


def assign_layouts(graph: Graph, channel_block: int, on_arm: Set[str] = frozenset()) -> Graph:
    """Give every value a layout; insert TransData where a value is needed in two layouts.

    Nodes in `on_arm` run on the Arm core: they are no views, and their operands lie element by element, in any order.
    """
    for _ in range(len(graph.nodes) + 2):
        forest = build_forest(graph, on_arm)
        problem = Problem(graph, forest.children(), channel_block, on_arm)
        choices = [_choose(problem, root) for root in _roots(graph, forest)]
        cut = [*forest.cut, *(edge for choice in choices for edge in choice.cut)]
        unordered = [name for choice in choices for name in choice.unordered]
        if not cut and not unordered:
            return _with_layouts(graph, {k: v for choice in choices for k, v in choice.layouts.items()})
        graph = copies_for_edges(graph, cut, unordered)
    raise InvalidGraph("layout assignment does not settle", stage="layout")


def _roots(graph: Graph, forest: Forest) -> Iterator[str]:
    return (name for name in graph.values if name not in forest.parents)


def _choose(problem: Problem, root: str) -> Choice:
    best: Choice | None = None
    for layout in _candidates(problem.graph, root, problem.channel_block):
        choice = _spread(problem, root, layout)
        if best is None or choice.words < best.words:
            best = choice
    if best is None or best.words == float("inf"):
        raise DoesNotFit(
            f"value {root} has no layout that every view of it can use",
            stage="layout",
            hint="avoid slices with negative steps on this value",
        )
    return best


def _candidates(graph: Graph, root: str, channel_block: int) -> list[Layout]:
    type_ = graph.values[root]
    row_major = dense(root, type_)
    if root in graph.sources or root in graph.constants:
        return [row_major]
    if len(type_.shape) == 4:
        candidates = [dense(root, type_, (0, 2, 3, 1)), row_major]
        if ITEM_BYTES[type_.dtype] == 1 and type_.shape[1] > channel_block and type_.shape[1] % 8:
            candidates.append(blocked(root, type_, channel_block))
        return candidates
    if len(type_.shape) == 3:
        return [row_major, dense(root, type_, (0, 2, 1))]
    return [row_major]


def _spread(problem: Problem, root: str, layout: Layout) -> Choice:
    graph = problem.graph
    choice = Choice({root: layout}, [], [], 0.0)
    pending = [root]
    while pending:
        value = pending.pop()
        here = choice.layouts[value]
        choice.words += _use_words(problem, value, here)
        if value in graph.outputs and not is_row_major(here, graph.values[value]):
            choice.unordered.append(value)
            choice.words += _copy_words(graph.values[value])
        for edge in problem.children.get(value, ()):
            derived = edge.derive(here)
            if derived is None or (derived.block and _is_on_arm(problem, edge.child)):
                choice.cut.append(edge)
                can_cut = edge.reverse is not None and not _is_copy_for(graph, value, edge.node)
                choice.words += _copy_words(graph.values[edge.child]) if can_cut else float("inf")
                # The child is paid for in its own tree; without it, a cut would look cheaper than no copy at all.
                choice.words += _use_words(problem, edge.child, dense(edge.child, graph.values[edge.child]))
            else:
                choice.layouts[edge.child] = derived
                pending.append(edge.child)
    return choice


def _is_on_arm(problem: Problem, value: str) -> bool:
    """The Arm core reads the value, and it knows no blocks."""
    return any(user.name in problem.on_arm for user in problem.graph.users[value])


def _is_copy_for(graph: Graph, value: str, node: Node) -> bool:
    """The value was copied to be what this node needs: another copy would be no nearer to it."""
    producer = graph.producers.get(value)
    return producer is not None and isinstance(producer.op, TransData) and graph.users[value] == [node]


def _use_words(problem: Problem, value: str, layout: Layout) -> float:
    """Port words of every computing node that writes or reads the value."""
    graph, type_ = problem.graph, problem.graph.values[value]
    producer = graph.producers.get(value)
    words = 0.0
    for node in [*([producer] if producer is not None else []), *graph.users[value]]:
        if node.name in problem.on_arm:
            words += float("inf") if layout.block else type_.n_bytes / 8
        elif not isinstance(node.op, VIEWS):
            words += _node_words(node.op, layout, type_)
        elif isinstance(node.op, Pad) and node is producer and layout.block:
            return float("inf")  # a border of a blocked tensor is no region of a fill
    return words


def _node_words(op: Op, layout: Layout, type_: TensorType) -> float:
    if isinstance(op, QSoftmax) and layout.block and op.axis != 1:
        return float("inf")
    if isinstance(op, QSoftmax):
        return type_.n_elements / (8 if layout.strides[op.axis] == 1 or layout.block else 1)
    if isinstance(op, QAdd | QMul | Lookup | TransData):  # these walk any dense order alike
        return type_.n_bytes / 8
    return port_words(layout, type_)


def _copy_words(type_: TensorType) -> float:
    return COPY_WORDS * type_.n_bytes / 8 + 16


def port_words(layout: Layout, type_: TensorType) -> float:
    """Aligned 8-byte words that one pass over the tensor touches, averaged over alignments."""
    if len(type_.shape) == 4 and (layout.block or layout.strides[1] == 1 or type_.shape[1] == 1):
        n, c, h, w = type_.shape
        block = layout.block or 16
        aligned = layout.block or (layout.strides[3] % 8 == 0)
        full, ragged = divmod(c, block)
        words = full * max(block / 8 if aligned else block / 8 + 7 / 8, 1)
        if ragged:
            words += ragged / 8 if aligned and ragged % 8 == 0 else ragged / 8 + (0 if w == 1 else 7 / 8)
        return n * h * w * words
    if len(type_.shape) == 4:
        return float(type_.n_elements)
    return type_.n_bytes / 8


def _with_layouts(graph: Graph, layouts: dict[str, Layout]) -> Graph:
    values = {name: replace(type_, layout=layouts[name]) for name, type_ in graph.values.items()}
    return verify(replace(graph, values=values), "layout")
