"""Legalization: rewrites that meet hardware limits before anything is lowered, and the limits that no rewrite meets.

One rule a function, limits from the target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from isa.target import Target
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import TensorType
from npuc.ops.structure import Concat, Slice
from npuc.ops.window import Window


@dataclass(frozen=True)
class Reason:
    """Why a unit cannot run a node: the constraint, what was found and what is allowed, where these are values."""

    constraint: str
    value: Any = None
    limit: Any = None

    def __str__(self) -> str:
        return self.constraint if self.limit is None else f"{self.constraint} {self.value}, limit {self.limit}"


def legalize(graph: Graph, target: Target) -> Graph:
    """The same function, closer to the limits of `target`; `violation` says which nodes still exceed one."""
    graph = split_large_strides(drop_idle_strides(graph), target.limits.stride)
    return verify(split_wide_concats(graph, target.limits.concat_inputs), "legalize")


def drop_idle_strides(graph: Graph) -> Graph:
    """Window that fits an axis only once => the same window with stride 1 along it."""
    nodes = []
    for node in graph.nodes:
        window = getattr(node.op, "window", None)
        if isinstance(window, Window):
            once = replace(window, stride=(1, 1)).output_shape(*graph.values[node.inputs[0]].shape[2:])
            stride = (1 if once[0] == 1 else window.stride[0], 1 if once[1] == 1 else window.stride[1])
            node = replace(node, op=replace(node.op, window=replace(window, stride=stride)))  # type: ignore[call-arg]
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def split_wide_concats(graph: Graph, limit: int) -> Graph:
    """Concat of more than `limit` inputs => a balanced tree of Concats; order and values are kept."""
    values, nodes = dict(graph.values), []
    for node in graph.nodes:
        if isinstance(node.op, Concat) and len(node.inputs) > limit:
            nodes += _concat_tree(node, values, limit)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), values=values)


def _concat_tree(node: Node, values: dict[str, TensorType], limit: int) -> list[Node]:
    made: list[Node] = []
    level = list(node.inputs)
    while len(level) > limit:
        n_groups = -(-len(level) // limit)
        cuts = [len(level) * i // n_groups for i in range(n_groups + 1)]
        above = []
        for start, stop in pairwise(cuts):
            part = tuple(level[start:stop])
            name = f"{node.outputs[0]}.part{len(made)}"
            values[name] = node.op.infer(*(values[item] for item in part))[0]
            made.append(Node(f"{node.name}.part{len(made)}", node.op, part, (name,), node.sources))
            above.append(name)
        level = above
    return [*made, replace(node, inputs=tuple(level))]


def split_large_strides(graph: Graph, limit: int) -> Graph:
    """Window with a stride above `limit` => one window for each output row or pixel, put in place by a Concat.

    A window with a single output position has no stride, and the slices and the Concat are views.
    """
    for axis in (2, 3):
        values, nodes = dict(graph.values), []
        for node in graph.nodes:
            window = getattr(node.op, "window", None)
            wide = isinstance(window, Window) and window.stride[axis - 2] > limit
            nodes += _positions(node, window, axis, values) if wide and isinstance(window, Window) else [node]
        graph = replace(graph, nodes=tuple(nodes), values=values)
    return drop_idle_strides(graph)


def _positions(node: Node, window: Window, axis: int, values: dict[str, TensorType]) -> list[Node]:
    """One slice and one window for each output position along `axis`, and the Concat of their results."""
    side, (source, *rest) = axis - 2, node.inputs
    shape = values[source].shape
    reach = (window.kernel[side] - 1) * window.dilation[side] + 1
    made, parts = [], []
    for i in range(values[node.outputs[0]].shape[axis]):
        first = i * window.stride[side] - window.pads[side]
        rows = range(max(first, 0), min(first + reach, shape[axis]))
        pads = list(window.pads)
        pads[side], pads[side + 2] = rows.start - first, first + reach - rows.stop
        cut = Slice(
            tuple(rows.start if a == axis else 0 for a in range(4)),
            tuple(rows.stop if a == axis else size for a, size in enumerate(shape)), (1, 1, 1, 1),
        )  # fmt: skip
        top, left, bottom, right = pads
        piece = replace(node.op, window=replace(window, pads=(top, left, bottom, right)))  # type: ignore[call-arg]
        names = f"{node.outputs[0]}.input{i}", f"{node.outputs[0]}.position{i}"
        values[names[0]] = cut.infer(values[source])[0]
        values[names[1]] = replace(
            piece.infer(values[names[0]], *(values[name] for name in rest))[0], quant=values[node.outputs[0]].quant
        )
        made.append(Node(f"{node.name}.input{i}", cut, (source,), (names[0],), node.sources))
        made.append(Node(f"{node.name}.position{i}", piece, (names[0], *rest), (names[1],), node.sources))
        parts.append(names[1])
    return [*made, Node(node.name, Concat(axis), tuple(parts), node.outputs, node.sources)]


def violation(graph: Graph, node: Node, target: Target) -> Reason | None:
    """The first limit that a node exceeds."""
    limits = target.limits
    window = getattr(node.op, "window", None)
    if not isinstance(window, Window):
        return None
    for what, got, limit in (
        ("kernel", window.kernel, limits.kernel),
        ("stride", window.stride, limits.stride),
        ("dilation", window.dilation, limits.dilation),
        ("padding", window.pads[:2], limits.pad),
    ):
        if max(got) > limit:
            return Reason(what, got, limit)
    for name in (*node.inputs, *node.outputs):
        shape = graph.values[name].shape if name and name not in graph.constants else ()
        if max(shape, default=0) > limits.dimension:
            return Reason(f"dimension of {name}", max(shape), limits.dimension)
    return None
