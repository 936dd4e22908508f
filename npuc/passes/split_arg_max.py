"""Long searches for a maximum are cut in two: the NPU finds the maximum of each piece, the Arm core looks there."""

from __future__ import annotations

from math import isqrt, prod

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.graph.types import Array
from npuc.ops.integer.indexing import ArgMax, GatherNd, IndexArithmetic
from npuc.ops.integer.pool import QMaxPool
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Reshape, Transpose
from npuc.ops.window import Window
from npuc.passes.rule import rewrite

SHORT = 64
"""Elements that a kernel searches sooner than several calls of kernels begin."""

LONGEST_PIECE = 256
"""Elements of a piece, the width of a pooling window."""


@rewrite(ArgMax)
def split_arg_max(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """argmax(x) = piece * i + argmax(x[i]), i = argmax(max of each piece): the first largest element lies in the first
    piece with the largest maximum, and is the first one there."""
    op, x = node.op, graph.type_of(node.inputs[0])
    if not isinstance(op, ArgMax) or x.dtype != "int8" or op.dtype != "int32":
        return Miss("it does not search int8 values, or its result is not int32")
    length = x.shape[op.axis]
    piece = _piece(length)
    if length <= SHORT or piece is None:
        return Miss(f"{length} elements are few, or cannot be cut into equal pieces")
    before, after = prod(x.shape[: op.axis]), prod(x.shape[op.axis + 1 :])
    made: list[Node] = []

    def emit(op: Op, *inputs: str, output: str = "") -> str:
        made.append(graph.new_node(op, inputs, node, output))
        return made[-1].outputs[0]

    def constant(array: Array, kind: str) -> str:
        return graph.add_constant(array.astype(np.int32), derived(node.outputs[0], kind))

    lines = emit(Reshape((before, length // piece, piece, after)), node.inputs[0])
    image = emit(Transpose((0, 3, 1, 2)), lines)
    largest = emit(QMaxPool(Window((1, piece), (1, piece)), (-128, 127)), image)
    row = emit(ArgMax(2), emit(Reshape((before, after, length // piece)), largest))
    place = constant(np.moveaxis(np.indices((before, after)), 0, 2), "place")
    index = emit(Concat(2), place, emit(Reshape((before, after, 1)), row))
    column = emit(ArgMax(2), emit(GatherNd(), image, index))
    start = emit(IndexArithmetic("mul"), row, constant(np.full((1, 1), piece), "piece"))
    position = emit(IndexArithmetic("add"), start, column)
    emit(Reshape(graph.type_of(node.outputs[0]).shape), position, output=node.outputs[0])
    return made


def _piece(length: int) -> int | None:
    """The divisor nearest to the root from above: as few elements are searched twice as in pieces."""
    candidates = range(isqrt(length - 1) + 1, min(length, LONGEST_PIECE + 1))
    return next((piece for piece in candidates if length % piece == 0), None)
