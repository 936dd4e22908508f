"""Batch normalization disappears into the convolution before it, or becomes a convolution itself."""

from __future__ import annotations

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.normalize import BatchNorm, batch_norm_affine
from npuc.ops.window import Window
from npuc.passes.rule import rewrite
from npuc.passes.scale_conv import scaled_conv


@rewrite(BatchNorm)
def fold_batch_norm(graph: Rewriter, node: Node) -> Node | Miss:
    """f * conv(x, w, b) + o = conv(x, f * w, f * b + o), with f and o per output channel."""
    conv = graph.producer(node.inputs[0])
    if conv is None or not isinstance(conv.op, Conv):
        return Miss("its input does not come from a Conv")
    if not graph.is_private(node.inputs[0]):
        return Miss(f"{conv.name} has other users, which need the value before normalization")
    return scaled_conv(graph, conv, *affine(graph, node), node)


@rewrite(BatchNorm)
def lower_batch_norm(graph: Rewriter, node: Node) -> Node | Miss:
    """f * x + o with f and o per channel is a depthwise 1x1 convolution with weights f and bias o."""
    factor, offset = affine(graph, node)
    weight = graph.add_constant(factor.astype(np.float32).reshape(-1, 1, 1, 1), derived(node.outputs[0], "weight"))
    bias = graph.add_constant(offset.astype(np.float32), derived(node.outputs[0], "bias"))
    op = Conv(Window((1, 1)), groups=factor.size)
    return graph.new_node(op, (node.inputs[0], weight, bias), node, node.outputs[0])


def affine(graph: Rewriter, node: Node) -> tuple[Array, Array]:
    """Factor and offset [c] of a batch normalization."""
    if not isinstance(node.op, BatchNorm):
        raise TypeError(f"{node.op.kind} is no batch normalization")
    return batch_norm_affine(node.op.epsilon, *(graph.constants[name] for name in node.inputs[1:]))
