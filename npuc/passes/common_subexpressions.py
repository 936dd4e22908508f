"""Values that are computed twice in the same way."""

from __future__ import annotations

from npuc.graph.rewrite import Rewriter
from npuc.passes.rule import graph_pass


@graph_pass
def common_subexpressions(graph: Rewriter) -> None:
    """Nodes with equal operator, inputs and result types give equal values; the first one stays."""
    first: dict[tuple[object, ...], str] = {}
    for listed in graph.nodes():
        node = graph.find(listed.name)
        if node is None or len(node.outputs) != 1:
            continue
        key = (type(node.op), node.op, node.inputs, graph.type_of(node.outputs[0]))
        earlier = graph.find(first.setdefault(key, node.name))
        if earlier is not None and earlier is not node:
            graph.forward(node, earlier.outputs[0])
