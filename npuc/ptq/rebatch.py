"""The same graph for more samples at once, so that whole batches are evaluated in numpy."""

from __future__ import annotations

from dataclasses import replace

from npuc.errors import UsageError
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import TensorType
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.normalize import Softmax
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose

STAGE = "rebatch"


def rebatch(graph: Graph, n: int) -> Graph:
    """The graph with axis 0 of every computed value `n` times as long; the samples stay apart, in order.

    UsageError names the first node that mixes samples: such a graph takes one at a time.
    """
    values: dict[str, TensorType] = {name: graph.values[name] for name in graph.constants}
    values.update({name: _longer(graph.values[name], n) for name in graph.inputs})
    nodes: list[Node] = []
    for node in graph.nodes:
        reason = _mixes_samples(graph, node)
        if reason:
            raise UsageError(f"{node.op.kind} {reason}", node=node.name, stage=STAGE, hint="evaluate single samples")
        op = _for_batch(node.op, n)
        nodes.append(replace(node, op=op))
        types = op.infer(*(values[name] for name in node.inputs if name))
        for name, inferred in zip(node.outputs, types, strict=True):
            values[name] = replace(inferred, quant=graph.values[name].quant)
    return verify(replace(graph, nodes=tuple(nodes), values=values), STAGE)


def _longer(x: TensorType, n: int) -> TensorType:
    if not x.shape:
        raise UsageError("an input is a scalar", stage=STAGE, hint="evaluate single samples")
    return replace(x, shape=(n * x.shape[0], *x.shape[1:]))


def _mixes_samples(graph: Graph, node: Node) -> str:
    """Why axis 0 is not the samples' alone at this node, "" if it is."""
    op, x = node.op, graph.values[node.inputs[0]]
    ranks = {len(graph.values[name].shape) for name in node.outputs}
    constants = [graph.values[name].shape for name in node.inputs if name in graph.constants]
    if isinstance(op, Softmax | QSoftmax | Concat) and op.axis == 0:
        return "works along axis 0"
    if isinstance(op, Transpose) and op.perm[0] != 0:
        return "moves axis 0"
    if isinstance(op, Slice) and op.ranges()[0] != range(x.shape[0]):
        return "takes a part of axis 0"
    if isinstance(op, Pad) and (op.before[0] or op.after[0]):
        return "pads axis 0"
    if isinstance(op, Reshape) and not op.shape:
        return "makes a scalar"
    is_weighted = len(node.inputs) > 2
    if not is_weighted and any(len(shape) in ranks and shape[0] > 1 for shape in constants):
        return "has a constant that differs along axis 0"
    if isinstance(op, Concat) and constants:
        return "has a constant operand"
    return ""


def _for_batch(op: Op, n: int) -> Op:
    if isinstance(op, Reshape):
        return replace(op, shape=(n * op.shape[0], *op.shape[1:]))
    if isinstance(op, Slice):
        return replace(op, stops=(n * op.stops[0], *op.stops[1:]))
    return op
