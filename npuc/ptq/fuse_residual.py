"""The addition after a convolution moves into its output stage."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.integer.elementwise import QAdd
from npuc.passes.rule import rewrite


@rewrite(QAdd)
def fuse_residual(graph: Rewriter, node: Node) -> Node | Miss:
    """add(conv(x), y) = conv(x, residual=y): the output stage has the arithmetic of the addition."""
    if not isinstance(node.op, QAdd) or node.op.subtract:
        return Miss("it is a difference")
    reasons = []
    # The later operand first: the other one is then most likely in memory anyway.
    for index in (1, 0):
        conv, other = graph.producer(node.inputs[index]), node.inputs[1 - index]
        reason = _why_not(graph, node, conv, other)
        if conv is not None and isinstance(conv.op, QConv) and not reason:
            fused = _with_residual(conv.op, node.op, is_first=index == 0)
            new = graph.new_node(fused, (*conv.inputs, other), node, node.outputs[0])
            return replace(new, sources=tuple(dict.fromkeys((*conv.sources, *node.sources))))
        reasons.append(reason)
    return Miss("; ".join(reasons))


def _why_not(graph: Rewriter, node: Node, conv: Node | None, other: str) -> str:
    """Why the convolution that makes an operand cannot add the other operand, "" if it can."""
    if conv is None or not isinstance(conv.op, QConv):
        return "an operand does not come from a convolution"
    if not graph.is_private(conv.outputs[0]) or other == conv.outputs[0]:
        return f"{conv.name} has other users"
    if conv.op.residual is not None or conv.op.table is not None:
        return f"{conv.name} has a residual or a table already"
    if graph.constant(other) is not None:
        return "the other operand is a constant"
    if graph.type_of(other).shape != graph.type_of(node.outputs[0]).shape:
        return "the other operand is broadcast"
    return ""


def _with_residual(conv: QConv, add: QAdd, is_first: bool) -> QConv:
    own, other = (add.first, add.second) if is_first else (add.second, add.first)
    residual = Residual(
        add.left_shift, own, other, add.result,
        mid_zero_point=conv.output_zero_point, mid_clamp=conv.clamp,
        other_zero_point=add.second_zero_point if is_first else add.first_zero_point,
    )  # fmt: skip
    return replace(conv, output_zero_point=add.output_zero_point, clamp=add.clamp, residual=residual)
