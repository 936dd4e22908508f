"""Residual additions move into the output stage of the convolution that feeds them."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.integer.elementwise import QAdd
from npuc.passes.rule import rewrite


@rewrite(QAdd)
def fuse_residual(graph: Rewriter, node: Node) -> Node | Miss:
    """add(conv(x), y) => conv(x, residual=y): the output stage adds with the same arithmetic, bit for bit."""
    add = node.op
    if not isinstance(add, QAdd) or add.subtract:
        return Miss("a subtraction")
    reasons = []
    for position in (1, 0):
        conv = graph.producer(node.inputs[position])
        reason = _obstacle(graph, node, position, conv)
        if reason is None and conv is not None:
            return _fused(node, add, position, conv)
        reasons.append(f"{node.inputs[position]}: {reason}")
    return Miss("; ".join(reasons))


def _obstacle(graph: Rewriter, node: Node, position: int, conv: Node | None) -> str | None:
    value, other = node.inputs[position], node.inputs[1 - position]
    if conv is None or not isinstance(conv.op, QConv):
        return "does not come from a convolution"
    if conv.op.table is not None or conv.op.residual is not None:
        return "its output stage is taken"
    if not graph.is_private(value):
        return "has other users, which need the value before the addition"
    if value == other or graph.constant(other) is not None:
        return "the other operand is a constant or the same value"
    types = [graph.type_of(name) for name in (value, other, node.outputs[0])]
    if len({type_.shape for type_ in types}) > 1 or len({type_.dtype for type_ in types}) > 1:
        return "the operands differ in shape or type"
    return None


def _fused(node: Node, add: QAdd, position: int, conv: Node) -> Node:
    scales = (add.first, add.second) if position == 0 else (add.second, add.first)
    zero = add.second_zero_point if position == 0 else add.first_zero_point
    op = conv.op
    if not isinstance(op, QConv):
        raise TypeError(f"{conv.name} is no convolution")
    residual = Residual(add.left_shift, scales[0], scales[1], add.result, op.output_zero_point, op.clamp, zero)
    fused = replace(op, residual=residual, output_zero_point=add.output_zero_point, clamp=add.clamp)
    inputs = (*conv.inputs, node.inputs[1 - position])
    return Node(node.name, fused, inputs, node.outputs, tuple(dict.fromkeys((*conv.sources, *node.sources))))
