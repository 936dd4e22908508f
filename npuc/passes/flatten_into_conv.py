"""A dense layer on a flattened image is a convolution with a kernel as large as the image."""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.ops.conv import Conv
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window
from npuc.passes.rule import rewrite

POINT = Conv(Window((1, 1)))


@rewrite(Conv)
def flatten_into_conv(graph: Rewriter, node: Node) -> Node | Miss:
    """conv1x1(flatten(transpose(x)), w) = conv(x, w') with a kernel of x's height and width and w' = w reordered.

    x is [n,c,h,w]; the transpose may be absent and must leave the batch in front.
    """
    flatten = graph.producer(node.inputs[0])
    if node.op != POINT or flatten is None or not isinstance(flatten.op, Reshape):
        return Miss("no dense 1x1 Conv on a reshaped value")
    n, *rest = graph.type_of(flatten.inputs[0]).shape
    if flatten.op.shape != (n, prod(rest), 1, 1) or len(rest) != 3:
        return Miss(f"{flatten.name} does not flatten an image")
    moved = graph.producer(flatten.inputs[0])
    perm: tuple[int, ...] = (0, 1, 2, 3)
    source = flatten.inputs[0]
    if moved is not None and isinstance(moved.op, Transpose) and moved.op.perm[0] == 0:
        perm, source = moved.op.perm, moved.inputs[0]
    if prod(graph.type_of(source).shape[2:]) == 1:
        return Miss("the image is one pixel")
    weight = graph.constants[node.inputs[1]]
    inverse = np.argsort(perm)
    filters = np.ascontiguousarray(weight.reshape(weight.shape[0], *rest).transpose(inverse))
    name = graph.add_constant(filters, derived(node.outputs[0], "weight"))
    op = Conv(Window((filters.shape[2], filters.shape[3])))
    return graph.new_node(op, (source, name, node.inputs[2]), node, node.outputs[0])
