"""Constants that are added to or multiplied with the output of a convolution become part of it."""

from __future__ import annotations

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Div, Elementwise, Mul, Sub
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose
from npuc.passes.rule import rewrite
from npuc.passes.scale_conv import scaled_conv


@rewrite(Elementwise)
def fold_affine_into_conv(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """conv(x, w, b) + c = conv(x, w, b + c) and c * conv(x, w, b) = conv(x, c * w, c * b), c per output channel.

    Reshapes and transposes may stand between: then c is carried back through them.
    """
    place = [i for i, name in enumerate(node.inputs) if graph.constant(name) is None]
    if len(place) != 1:
        return Miss("not one constant operand")
    chain = conv_and_views(graph, node.inputs[place[0]])
    if isinstance(chain, Miss):
        return chain
    conv, *views = chain
    constant = graph.constants[node.inputs[1 - place[0]]].astype(np.float64)
    channels = per_channel(graph, constant, node, conv, views)
    if isinstance(channels, Miss):
        return channels
    pair = affine(node.op, channels, constant_first=place[0] == 1)
    if isinstance(pair, Miss):
        return pair
    if not views:
        return [scaled_conv(graph, conv, *pair, node)]
    nodes = [scaled_conv(graph, conv, *pair, node, graph.unique(derived(node.outputs[0], "conv")))]
    for i, view in enumerate(views):
        output = node.outputs[0] if i == len(views) - 1 else ""
        nodes.append(graph.new_node(view.op, nodes[-1].outputs, view, output))
    return nodes


def conv_and_views(graph: Rewriter, value: str) -> list[Node] | Miss:
    """The Conv and the reshapes and transposes behind it that lead to `value`, which nothing else may read."""
    chain: list[Node] = []
    while True:
        producer = graph.producer(value)
        if producer is None or not isinstance(producer.op, Reshape | Transpose | Conv):
            return Miss("its input does not come from a Conv")
        if not graph.is_private(value):
            return Miss(f"{value} has other users, which need it as it is")
        chain.insert(0, producer)
        if isinstance(producer.op, Conv):
            return chain
        value = producer.inputs[0]


def per_channel(graph: Rewriter, constant: Array, node: Node, conv: Node, views: list[Node]) -> Array | Miss:
    """The constant as one number for each output channel of the convolution."""
    shape = graph.type_of((views or [conv])[-1].outputs[0]).shape
    if graph.type_of(node.outputs[0]).shape != shape:
        return Miss("the constant has more elements than the output of the Conv")
    whole = np.broadcast_to(constant, shape)
    for view in reversed(views):
        whole = undo(view.op, whole, graph.type_of(view.inputs[0]).shape)
    channels = whole[0, :, 0, 0]
    if np.any(whole != channels.reshape(-1, 1, 1)):
        return Miss("the constant differs within a channel")
    return channels


def undo(op: Op, array: Array, shape: tuple[int, ...]) -> Array:
    """Carry an array back through a reshape or transpose of a tensor of `shape`."""
    if isinstance(op, Transpose):
        return array.transpose(np.argsort(op.perm))
    return array.reshape(shape)


def affine(op: Op, constant: Array, constant_first: bool) -> tuple[Array, Array] | Miss:
    """Factor and offset of `x op constant`, or `constant op x`."""
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    match op:
        case Add():
            return one, constant
        case Sub():
            return (-one, constant) if constant_first else (one, -constant)
        case Mul():
            return constant, zero
        case Div() if not constant_first and np.all(constant):
            return 1 / constant, zero
        case _:
            return Miss("the constant is divided by the value, or is 0")
