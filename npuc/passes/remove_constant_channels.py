"""Channels that hold one value, or that nothing reads, are not computed; what they add becomes bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv
from npuc.passes.rule import rewrite

Channels = npt.NDArray[np.bool_]
INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class Conv:
    """A convolution with its constants: weights minus their zero point [oc,ic/groups,kh,kw], bias [oc], both int64."""

    node: Node
    op: QConv
    weights: Array
    bias: Array

    def constant_outputs(self, known: Channels, values: Array) -> tuple[Channels, Array]:
        """Which outputs hold one value, and that value [oc], where inputs `known` [ic] hold `values` [ic]."""
        has_border = any(self.op.window.pads)
        offsets = values - self.op.input_zero_point
        fixed = known & (offsets == 0) if has_border else known
        if self.op.is_depthwise:
            fixed, offsets = fixed[:, None], offsets[:, None]  # each output has an input of its own
        used = self.weights.any(axis=(2, 3))
        constant = ~(used & ~fixed).any(axis=1)
        total = self.bias + (self.weights.sum(axis=(2, 3)) * np.where(fixed, offsets, 0)).sum(axis=1)
        constant &= (total >= INT32.min) & (total <= INT32.max)
        acc = np.where(constant, total, 0).astype(np.int32)[None, :, None, None]
        return constant, self.op.output_stage(acc).astype(np.int64)[0, :, 0, 0]


@rewrite(QConv)
def remove_constant_channels(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """conv(f(x)) = conv'(f'(x)), f' without channels that are one value for every x or that conv has no weights for.

    f is a dense convolution and depthwise ones behind it. A constant c of a channel with weights w adds the sum of
    (c - zero point) w to the bias; where conv has padding, only c = zero point is one value for every pixel.
    """
    last = _conv(graph, node)
    if last is None or last.op.groups != 1:
        return Miss("no dense convolution with constant weights")
    chain = _chain(graph, node.inputs[0])
    if not chain:
        return Miss("no private chain of a dense convolution and depthwise ones before it")
    known, values = np.zeros(chain[0].weights.shape[1], bool), np.zeros(chain[0].weights.shape[1], np.int64)
    for conv in chain:
        known, values = conv.constant_outputs(known, values)
    keep, bias = _kept(last, known, values)
    if keep.all():
        return Miss("every channel between the convolutions carries something")
    return _narrowed(graph, [*chain, last], keep, bias)


def _conv(graph: Rewriter, node: Node) -> Conv | None:
    op = node.op
    if not isinstance(op, QConv):
        return None
    weights, bias = graph.constant(node.inputs[1]), graph.constant(node.inputs[2])
    if weights is None or bias is None:
        return None
    return Conv(node, op, weights.astype(np.int64) - op.weight_zero_point, bias.astype(np.int64))


def _chain(graph: Rewriter, value: str) -> list[Conv]:
    """The dense convolution and the depthwise ones behind it that end in a value, each read by the next alone."""
    chain: list[Conv] = []
    while True:
        producer = graph.producer(value)
        conv = _conv(graph, producer) if producer is not None and graph.is_private(value) else None
        if conv is None or conv.op.residual is not None:
            return []
        chain.insert(0, conv)
        if conv.op.groups == 1:
            return chain
        if not conv.op.is_depthwise:
            return []
        value = conv.node.inputs[0]


def _kept(last: Conv, known: Channels, values: Array) -> tuple[Channels, Array]:
    """Which inputs of `last` [ic] have to be computed, at least one, and its bias [oc] with what the others add."""
    offsets = np.where(known, values - last.op.input_zero_point, 0)
    foldable = known & (offsets == 0) if any(last.op.window.pads) else known
    unused = ~last.weights.any(axis=(0, 2, 3))
    for removable in (foldable | unused, unused):
        keep: Channels = np.logical_not(removable)
        keep[0] |= not keep.any()
        bias = last.bias + (last.weights.sum(axis=(2, 3)) * np.where(keep, 0, offsets)).sum(axis=1)
        if bias.min() >= INT32.min and bias.max() <= INT32.max:
            break
    return keep, bias


def _narrowed(graph: Rewriter, convs: Sequence[Conv], keep: Channels, bias: Array) -> list[Node]:
    """The convolutions without the channels between them that are not kept; the last one has this bias."""
    *chain, last = convs
    nodes: list[Node] = []
    value = chain[0].node.inputs[0]
    for conv in chain:
        op = _subset(conv.op, keep)
        weights, constants = (graph.constants[name][keep] for name in conv.node.inputs[1:3])
        nodes.append(_node(graph, conv.node, op, value, weights, constants))
        value = nodes[-1].outputs[0]
        graph.values[value] = replace(graph.type_of(value), quant=graph.type_of(conv.node.outputs[0]).quant)
    weights = np.ascontiguousarray(graph.constants[last.node.inputs[1]][:, keep])
    final = _node(graph, last.node, last.op, value, weights, bias.astype(np.int32), last.node.outputs[0])
    return [*nodes, final]


def _subset(op: QConv, keep: Channels) -> QConv:
    chosen = np.flatnonzero(keep)
    multipliers, shifts = (tuple(of[i] for i in chosen) for of in (op.multipliers, op.shifts))
    return replace(op, groups=len(chosen) if op.is_depthwise else 1, multipliers=multipliers, shifts=shifts)


def _node(
    graph: Rewriter, like: Node, op: QConv, value: str, weights: Array, bias: Array, output: str = ""
) -> Node:  # fmt: skip
    names = [
        graph.add_constant(array, derived(name, "narrow"))
        for array, name in zip((weights, bias), like.inputs[1:3], strict=True)
    ]
    return graph.new_node(op, (value, *names, *like.inputs[3:]), like, output)
