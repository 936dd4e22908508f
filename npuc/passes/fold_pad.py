"""Explicit zero padding becomes the padding of the window that reads it."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.conv import Conv
from npuc.ops.integer.conv import QConv
from npuc.ops.pool import AveragePool
from npuc.ops.structure import Pad
from npuc.ops.window import Window
from npuc.passes.rule import rewrite


@rewrite(Conv, QConv, AveragePool)
def fold_pad_into_window(graph: Rewriter, node: Node) -> Node | Miss:
    """conv(pad(x, zero), p) = conv(x, p + pads), zero being the zero point; so for an average that counts its pads."""
    pad = graph.producer(node.inputs[0])
    if pad is None or not isinstance(pad.op, Pad):
        return Miss("its input does not come from a Pad")
    zero = node.op.input_zero_point if isinstance(node.op, QConv) else 0
    if pad.op.value != zero:
        return Miss(f"{pad.name} pads with {pad.op.value:g}, a window pads with {zero}")
    if any(pad.op.before[:2] + pad.op.after[:2]):
        return Miss(f"{pad.name} pads the batch or the channels")
    if isinstance(node.op, AveragePool):
        return fold_into_average(graph, node, node.op, pad, pad.op)
    if not isinstance(node.op, Conv | QConv):
        return Miss("no window")
    op = replace(node.op, window=widened(node.op.window, pad.op))
    return graph.new_node(op, (pad.inputs[0], *node.inputs[1:]), node, node.outputs[0])


def fold_into_average(graph: Rewriter, node: Node, op: AveragePool, pad: Node, pads: Pad) -> Node | Miss:
    """An average must count the pads, and no window may lie in them altogether."""
    if any(op.window.pads) and not op.count_include_pad:
        return Miss("it leaves its own pads out of the count")
    wide = AveragePool(widened(op.window, pads), count_include_pad=True)
    try:
        wide.infer(graph.type_of(pad.inputs[0]))
    except ValueError as error:
        return Miss(str(error))
    return graph.new_node(wide, pad.inputs, node, node.outputs[0])


def widened(window: Window, pad: Pad) -> Window:
    """The window with the pads of rows and columns added to its own."""
    more = (*pad.before[2:], *pad.after[2:])
    top, left, bottom, right = (own + extra for own, extra in zip(window.pads, more, strict=True))
    return replace(window, pads=(top, left, bottom, right))
