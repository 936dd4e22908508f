"""Choose a layout for every tree of values that share bytes, by the port cost of all that touches them.

Trees are independent once copies stand where a view cannot be expressed, so the cheapest candidate of each tree is the
global optimum of the stated cost: port words of all reads and writes, plus a copy for every edge the candidate breaks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from npuc.errors import InvalidGraph
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import ITEM_BYTES, Layout, TensorType
from npuc.layout.forest import Edge, Forest, build_forest
from npuc.layout.strides import blocked, dense, is_row_major
from npuc.layout.trans_data import TransData
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose

LOG = logging.getLogger("npuc.layout")

COPY_WORDS = 4
"""A copy costs about this many port words per word of data (read, write, and 4 bytes a cycle in the vector unit)."""

VIEWS = (Reshape, Transpose, Slice, Concat, Pad)


@dataclass
class Choice:
    """One candidate for a tree: layouts of the members it reaches, edges it breaks, outputs it leaves out of order."""

    layouts: dict[str, Layout]
    cut: list[Edge]
    unordered: list[str]
    words: float


def assign_layouts(graph: Graph, channel_block: int) -> Graph:
    """Give every value a layout; insert TransData where a value is needed in two layouts."""
    for _ in range(len(graph.nodes) + 2):
        forest = build_forest(graph)
        children = forest.children()
        choices = [_choose(graph, children, root, channel_block) for root in _roots(graph, forest)]
        cut = [*forest.cut, *(edge for choice in choices for edge in choice.cut)]
        unordered = [name for choice in choices for name in choice.unordered]
        if not cut and not unordered:
            return _with_layouts(graph, {k: v for choice in choices for k, v in choice.layouts.items()})
        graph = insert_copies(graph, cut, unordered)
    raise InvalidGraph("layout assignment does not settle", stage="layout")


def _roots(graph: Graph, forest: Forest) -> Iterator[str]:
    return (name for name in graph.values if name not in forest.parents)


def _choose(graph: Graph, children: dict[str, list[Edge]], root: str, channel_block: int) -> Choice:
    best: Choice | None = None
    for layout in _candidates(graph, root, channel_block):
        choice = _spread(graph, children, root, layout)
        if best is None or choice.words < best.words:
            best = choice
    if best is None:
        raise InvalidGraph(f"value {root} has no layout candidate", stage="layout")
    return best


def _candidates(graph: Graph, root: str, channel_block: int) -> list[Layout]:
    type_ = graph.values[root]
    row_major = dense(root, type_)
    if root in graph.inputs or root in graph.constants:
        return [row_major]
    if len(type_.shape) == 4:
        candidates = [dense(root, type_, (0, 2, 3, 1)), row_major]
        if ITEM_BYTES[type_.dtype] == 1 and type_.shape[1] > channel_block and type_.shape[1] % 8:
            candidates.append(blocked(root, type_, channel_block))
        return candidates
    if len(type_.shape) == 3:
        return [row_major, dense(root, type_, (0, 2, 1))]
    return [row_major]


def _spread(graph: Graph, children: dict[str, list[Edge]], root: str, layout: Layout) -> Choice:
    choice = Choice({root: layout}, [], [], 0.0)
    pending = [root]
    while pending:
        value = pending.pop()
        here = choice.layouts[value]
        choice.words += _touched(graph, value) * port_words(here, graph.values[value])
        if value in graph.outputs and not is_row_major(here, graph.values[value]):
            choice.unordered.append(value)
            choice.words += _copy_words(graph.values[value])
        for edge in children.get(value, ()):
            derived = edge.derive(here)
            if derived is None:
                choice.cut.append(edge)
                choice.words += _copy_words(graph.values[edge.child])
            else:
                choice.layouts[edge.child] = derived
                pending.append(edge.child)
    return choice


def _touched(graph: Graph, value: str) -> int:
    """How many computing nodes read or write the value."""
    producer = graph.producers.get(value)
    writes = int(producer is not None and not isinstance(producer.op, VIEWS))
    return writes + sum(not isinstance(user.op, VIEWS) for user in graph.users[value])


def _copy_words(type_: TensorType) -> float:
    return COPY_WORDS * type_.n_bytes / 8 + 16


def port_words(layout: Layout, type_: TensorType) -> float:
    """Aligned 8-byte words that one pass over the tensor touches, averaged over alignments."""
    if len(type_.shape) == 4 and (layout.block or layout.strides[1] == 1 or type_.shape[1] == 1):
        n, c, h, w = type_.shape
        block = layout.block or 16
        aligned = layout.block or (layout.strides[3] % 8 == 0)
        full, ragged = divmod(c, block)
        words = full * (block / 8 if aligned else block / 8 + 7 / 8)
        if ragged:
            words += ragged / 8 if aligned and ragged % 8 == 0 else ragged / 8 + (0 if w == 1 else 7 / 8)
        return n * h * w * words
    if len(type_.shape) == 4:
        return float(type_.n_elements)
    return type_.n_bytes / 8


def _with_layouts(graph: Graph, layouts: dict[str, Layout]) -> Graph:
    values = {name: replace(type_, layout=layouts[name]) for name, type_ in graph.values.items()}
    return verify(replace(graph, values=values), "layout")


def insert_copies(graph: Graph, cut: list[Edge], unordered: list[str]) -> Graph:
    """Put a TransData before each input named by a cut edge and behind each output that is out of order."""
    values, nodes = dict(graph.values), []
    renamed = {name: f"{name}.internal" for name in unordered}
    at = {(edge.node.name, edge.position): f"{edge.node.inputs[edge.position]}.copy{i}" for i, edge in enumerate(cut)}
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        for position, source in enumerate(inputs):
            copy = at.get((node.name, position))
            if copy is not None:
                copy = _fresh(copy, values)
                values[copy] = replace(graph.values[node.inputs[position]], layout=None)
                nodes.append(Node(f"{copy}.trans_data", TransData(), (source,), (copy,), node.sources))
                inputs = (*inputs[:position], copy, *inputs[position + 1 :])
                LOG.info("%s: a copy of %s, which has another layout", node.name, source)
        outputs = tuple(renamed.get(name, name) for name in node.outputs)
        nodes.append(replace(node, inputs=inputs, outputs=outputs))
        for name in set(node.outputs) & set(renamed):
            values[renamed[name]] = replace(graph.values[name], layout=None)
            nodes.append(Node(f"{name}.trans_data", TransData(), (renamed[name],), (name,), node.sources))
    return verify(replace(graph, nodes=tuple(nodes), values=values), "layout")


def _fresh(name: str, taken: dict[str, TensorType]) -> str:
    while name in taken:
        name += "_"
    return name
