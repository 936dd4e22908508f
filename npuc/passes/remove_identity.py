"""Operators that change nothing."""

from __future__ import annotations

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.elementwise import Clip
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose
from npuc.passes.rule import rewrite


@rewrite(Reshape, Transpose, Slice, Pad, Concat, ResizeNearest, Clip)
def remove_identity(graph: Rewriter, node: Node) -> str | Miss:
    """op(x) = x for a reshape to the same shape, a transpose in order, a slice of everything, no pads, one input."""
    if is_identity(node.op, graph.type_of(node.inputs[0]).shape, len(node.inputs)):
        return node.inputs[0]
    return Miss("changes its input")


def is_identity(op: Op, shape: tuple[int, ...], n_inputs: int) -> bool:
    """Whether `op` gives back its first input, of this shape."""
    match op:
        case Reshape():
            return op.shape == shape
        case Transpose():
            return op.perm == tuple(range(len(shape)))
        case Slice():
            return op.ranges() == tuple(map(range, shape))
        case Pad():
            return not any(op.before + op.after)
        case Concat():
            return n_inputs == 1
        case ResizeNearest():
            return op.factors == (1, 1)
        case Clip():
            return op.low == -float("inf") and op.high == float("inf")
        case _:
            return False
