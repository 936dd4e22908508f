"""Which clamps vanish into the operator before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.graph.graph import Graph, Node
from npuc.graph.types import TensorType
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.op import Op
from npuc.ops.pool import AveragePool, MaxPool, SpatialMean
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose

CLAMPING: tuple[type[Op], ...] = (Conv, Add, Sub, Mul, Div, SpatialMean, AveragePool)
KEEPING: tuple[type[Op], ...] = (Reshape, Transpose, Slice, Concat, Pad, ResizeNearest, MaxPool)


@dataclass(frozen=True)
class Clamp:
    """What remains of the clamps after an operator: the value they end in, their bounds, the nodes."""

    result: str
    low: float = -np.inf
    high: float = np.inf
    nodes: tuple[Node, ...] = ()


def absorb_clamps(graph: Graph, node: Node) -> Clamp:
    """clip(conv(x), lo, hi) => conv(x) clamped: the clamps that `node` can apply itself.

    A clamp is absorbed when nothing else reads its input and its input is no output of the graph.
    """
    clamp = Clamp(node.outputs[0])
    if not isinstance(node.op, CLAMPING) or keeps_quantization(graph, node):
        return clamp
    return _following(graph, clamp)


def keeps_quantization(graph: Graph, node: Node) -> bool:
    """The result has the scale and zero point of the inputs: nothing is computed, or a mean of a few elements."""
    if isinstance(node.op, AveragePool):
        return not covers_image(node.op, graph.values[node.inputs[0]])
    return isinstance(node.op, KEEPING)


def covers_image(op: AveragePool, x: TensorType) -> bool:
    """The one window is the whole image, without pads."""
    return op.window.kernel == x.shape[2:] and not any(op.window.pads)


def _following(graph: Graph, clamp: Clamp) -> Clamp:
    while clamp.result not in graph.outputs and len(graph.users[clamp.result]) == 1:
        node = graph.users[clamp.result][0]
        if isinstance(node.op, Relu):
            low, high = 0.0, np.inf
        elif isinstance(node.op, Clip):
            low, high = node.op.low, node.op.high
        else:
            break
        bounds = [min(max(bound, low), high) for bound in (clamp.low, clamp.high)]
        clamp = Clamp(node.outputs[0], bounds[0], bounds[1], (*clamp.nodes, node))
    return clamp
