"""Values that share bytes: trees of views and placements, each with the root that decides the layout.

An edge says how the layout of `child` follows from that of `parent`. Reshape and Transpose can be turned round; a Slice
follows its input, and the inputs of a Concat or Pad follow its output (they are written in place). An edge that cannot
join the forest without giving a value two parents is `cut`: the node then needs a copy of that input.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field

from npuc.graph.graph import Graph, Node
from npuc.graph.types import Layout
from npuc.layout.strides import inverse, reshape_layout, slice_layout, transpose_layout
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose

Derive = Callable[[Layout], "Layout | None"]


@dataclass(frozen=True)
class Edge:
    """`child` takes its layout from `parent`; `reverse` goes the other way, None when impossible."""

    parent: str
    child: str
    node: Node
    position: int
    derive: Derive
    reverse: Derive | None = None

    def turned(self) -> Edge | None:
        """The same edge from the child's side."""
        if self.reverse is None:
            return None
        return Edge(self.child, self.parent, self.node, self.position, self.reverse, self.derive)


@dataclass
class Forest:
    """Parent edge of every value that has one, and the edges that need a copy."""

    parents: dict[str, Edge] = field(default_factory=dict)
    cut: list[Edge] = field(default_factory=list)

    def root(self, value: str) -> str:
        """The value whose layout decides that of `value`."""
        while value in self.parents:
            value = self.parents[value].parent
        return value

    def children(self) -> dict[str, list[Edge]]:
        """Edges by parent, in the order in which they joined."""
        result: dict[str, list[Edge]] = {}
        for edge in self.parents.values():
            result.setdefault(edge.parent, []).append(edge)
        return result


def view_edges(graph: Graph, node: Node) -> list[Edge]:
    """Edges that a structural node asks for; empty for a computing node."""
    types, source, result = graph.values, node.inputs[0] if node.inputs else "", node.outputs[0]
    op = node.op
    if isinstance(op, Reshape):
        x, y = types[source], types[result]
        return [
            Edge(
                source,
                result,
                node,
                0,
                lambda at: reshape_layout(at, x, y.shape),
                lambda at: reshape_layout(at, y, x.shape),
            )
        ]
    if isinstance(op, Transpose):
        perm = op.perm
        return [
            Edge(
                source,
                result,
                node,
                0,
                lambda at: transpose_layout(at, perm),
                lambda at: transpose_layout(at, inverse(perm)),
            )
        ]
    if isinstance(op, Slice):
        ranges, x = op.ranges(), types[source]
        return [Edge(source, result, node, 0, lambda at: slice_layout(at, x, ranges))]
    return [_placement(graph, node, i, ranges) for i, ranges in enumerate(_places(graph, node))]


def _places(graph: Graph, node: Node) -> list[tuple[range, ...]]:
    """Region of the output that each input of a Concat or Pad occupies."""
    op = node.op
    if isinstance(op, Pad):
        shape = graph.values[node.inputs[0]].shape
        return [tuple(range(before, before + size) for before, size in zip(op.before, shape, strict=True))]
    if not isinstance(op, Concat):
        return []
    places, start = [], 0
    for name in node.inputs:
        shape = graph.values[name].shape
        places.append(
            tuple(range(start, start + size) if axis == op.axis else range(size) for axis, size in enumerate(shape))
        )
        start += shape[op.axis]
    return places


def _placement(graph: Graph, node: Node, position: int, ranges: tuple[range, ...]) -> Edge:
    whole = graph.values[node.outputs[0]]
    return Edge(node.outputs[0], node.inputs[position], node, position, lambda at: slice_layout(at, whole, ranges))


def build_forest(graph: Graph, computed: Set[str] = frozenset()) -> Forest:
    """Join every edge that can be joined, in the order of the nodes; nodes in `computed` are no views."""
    forest = Forest()
    fixed = set(graph.sources) | set(graph.constants)
    for node in graph.nodes:
        if node.name in computed:
            continue
        for edge in view_edges(graph, node):
            if edge.child in node.outputs:
                forest.parents[edge.child] = edge
            elif edge.child in fixed or edge.child in graph.outputs or not _hang(forest, edge, fixed):
                forest.cut.append(edge)
    return forest


def _hang(forest: Forest, edge: Edge, fixed: set[str]) -> bool:
    """Make `edge.child` the root of its tree and hang it below `edge.parent`; False when that is impossible."""
    path, value = [], edge.child
    while value in forest.parents:
        path.append(forest.parents[value])
        value = path[-1].parent
    if value in fixed or value == forest.root(edge.parent) or any(step.reverse is None for step in path):
        return False
    for step in path:
        turned = step.turned()
        if turned is not None:
            forest.parents[turned.child] = turned
    forest.parents[edge.child] = edge
    return True
