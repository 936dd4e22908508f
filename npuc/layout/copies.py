"""Copies: a TransData wherever a value is needed in two layouts."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Set
from dataclasses import replace

from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import ITEM_BYTES, Layout, TensorType
from npuc.layout.forest import Edge
from npuc.layout.trans_data import TransData

LOG = logging.getLogger("npuc.layout")

MAX_RUNS = 64
"""Runs of neighboring bytes that an operand of the Arm core may consist of: each is a range in its call's record."""


def copies_for_edges(graph: Graph, cut: list[Edge], unordered: list[str]) -> Graph:
    """A TransData for each cut edge, on the side of the parent, and one behind each output that is out of order."""
    behind = dict.fromkeys(
        [*unordered, *(edge.parent for edge in cut if edge.parent in edge.node.outputs and edge.reverse is not None)]
    )
    before = {(edge.node.name, edge.position) for edge in cut if edge.node.outputs[0] not in behind}
    return insert_copies(graph, before, behind, frozenset(unordered))


def insert_copies(
    graph: Graph, before: Set[tuple[str, int]], behind: Iterable[str], outside: Set[str] = frozenset()
) -> Graph:
    """A TransData before each of these inputs (node, position) and behind each of these results of nodes.

    The copies of those in `outside` are for whoever runs the graph: its nodes read on as before.
    """
    values: dict[str, TensorType] = dict(graph.values)
    renamed = {name: _new_value(f"{name}.inner", graph.values[name], values) for name in behind}
    nodes: list[Node] = []
    names = {node.name for node in graph.nodes}
    for node in graph.nodes:
        inputs = list(node.inputs)
        for position, source in enumerate(inputs):
            if source in outside:
                source = inputs[position] = renamed[source]
            if (node.name, position) in before:
                inputs[position] = _new_value(f"{source}.copy", graph.values[source], values)
                nodes.append(_copy(inputs[position], source, node, names))
        outputs = tuple(renamed.get(name, name) for name in node.outputs)
        nodes.append(replace(node, inputs=tuple(inputs), outputs=outputs))
        nodes += [_copy(name, renamed[name], node, names) for name in node.outputs if name in renamed]
    return verify(replace(graph, nodes=tuple(nodes), values=values), "layout")


def _new_value(name: str, type_: TensorType, values: dict[str, TensorType]) -> str:
    while name in values:
        name += "_"
    values[name] = replace(type_, layout=None)
    return name


def _copy(target: str, source: str, like: Node, names: set[str]) -> Node:
    LOG.info("%s: copied to %s, which has another layout", source, target)
    name = f"{target}.trans_data"
    while name in names:
        name += "_"
    names.add(name)
    return Node(name, TransData(), (source,), (target,), like.sources)


def gather_operands(graph: Graph, on_arm: Set[str]) -> Graph:
    """The placed graph with a TransData at every operand of a node in `on_arm` that consists of too many runs.

    A TransData there remains as it is: its operands are what another one would make of them.
    """
    before: dict[tuple[str, int], None] = {}
    behind: dict[str, None] = {}
    for node in graph.nodes:
        if node.name not in on_arm or isinstance(node.op, TransData):
            continue
        scattered = {name for name in (*node.inputs, *node.outputs) if name and _n_runs(graph.values[name]) > MAX_RUNS}
        before |= {(node.name, i): None for i, name in enumerate(node.inputs) if name in scattered - {*graph.constants}}
        behind |= {name: None for name in node.outputs if name in scattered}
    return insert_copies(graph, before.keys(), behind) if before or behind else graph


def _n_runs(type_: TensorType) -> int:
    """Runs of neighboring bytes, at most."""
    layout = type_.layout or Layout("", 0, ())
    run, n = ITEM_BYTES[type_.dtype], 1
    for size, stride in sorted(zip(type_.shape, layout.strides, strict=True), key=lambda axis: abs(axis[1])):
        if size > 1 and stride == run and n == 1:
            run *= size
        elif size > 1 and stride:
            n *= size
    return n
