"""Explicit padding with the zero point becomes the padding of the convolution that reads it."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.integer.conv import QConv
from npuc.ops.structure import Pad
from npuc.passes.fold_pad import widened
from npuc.passes.rule import rewrite


@rewrite(QConv)
def fold_integer_pad(graph: Rewriter, node: Node) -> Node | Miss:
    """conv(pad(x, zero point), p) = conv(x, p + pads): outside the input the array reads the zero point."""
    pad = graph.producer(node.inputs[0])
    if pad is None or not isinstance(pad.op, Pad) or not isinstance(node.op, QConv):
        return Miss("its input does not come from a Pad")
    if pad.op.value != node.op.input_zero_point:
        return Miss(f"{pad.name} pads with {pad.op.value:g}, the zero point is {node.op.input_zero_point}")
    if any(pad.op.before[:2] + pad.op.after[:2]):
        return Miss(f"{pad.name} pads the batch or the channels")
    op = replace(node.op, window=widened(node.op.window, pad.op))
    return replace(
        node, op=op, inputs=(*pad.inputs, *node.inputs[1:]), sources=tuple(dict.fromkeys((*pad.sources, *node.sources)))
    )
