"""Tables move into the output stage of the convolution that feeds them."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup
from npuc.passes.rule import rewrite


@rewrite(Lookup)
def fuse_table(graph: Rewriter, node: Node) -> Node | Miss:
    """table(conv(x)) => conv(x, table): the output stage maps each clamped value through the table."""
    conv = graph.producer(node.inputs[0])
    if conv is None or not isinstance(conv.op, QConv) or not isinstance(node.op, Lookup):
        return Miss("input does not come from a convolution")
    if node.op.dtype != "int8":
        return Miss("the output stage writes int8")
    if conv.op.table is not None or conv.op.residual is not None:
        return Miss(f"the output stage of {conv.name} is taken")
    if not graph.is_private(node.inputs[0]):
        return Miss(f"{conv.name} has other users, which need the value before the table")
    sources = tuple(dict.fromkeys((*conv.sources, *node.sources)))
    return Node(node.name, replace(conv.op, table=node.op.table), conv.inputs, node.outputs, sources)
