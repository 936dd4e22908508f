"""Operators that only move bytes: views cost nothing, conversions are copies, padding fills the border."""

from __future__ import annotations

from dataclasses import replace

from isa.target import Target
from npuc.graph.graph import Graph, Node
from npuc.layout.trans_data import TransData
from npuc.lower.kernel import Kernel, lowers
from npuc.lower.operand import Operand
from npuc.lower.vector import elementwise_operands
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose


@lowers(Reshape, Transpose, Slice, Concat)
def lower_view(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """The operands already share their bytes."""
    return []


@lowers(TransData)
def lower_trans_data(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """TransData => vec.copy."""
    (source, result), spatial = elementwise_operands(graph, node, [node.inputs[0], node.outputs[0]], target)
    fields = {"clamp_low": -128, "clamp_high": 127}
    return [Kernel(node.name, "vec.copy", node.sources, result, source, fields=fields, spatial=spatial)]


@lowers(Pad)
def lower_pad(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """Pad => a dma.fill for each border; the input was written in place."""
    op = node.op
    if not isinstance(op, Pad):
        raise ValueError("not a pad")
    (whole,), spatial = elementwise_operands(graph, node, [node.outputs[0]], target)
    if not spatial or not whole.is_pixel_major:
        raise ValueError("padding needs a rank-4 tensor stored pixel by pixel")
    kernels: list[Kernel] = []
    n, h, w, c = whole.shape
    for axis, (size, low, high) in enumerate(zip((n, c, h, w), op.before, op.after, strict=True)):
        for start, count in ((0, low), (size - high, high)):
            if count:
                part = _part(whole, axis, start, count)
                kernels.append(
                    Kernel(
                        f"{node.name}.{len(kernels)}",
                        "dma.fill",
                        node.sources,
                        part,
                        fields={"value": int(op.value) & 255},
                    )
                )
    return kernels


def _part(whole: Operand, axis: int, start: int, count: int) -> Operand:
    steps = (whole.batch, 1, whole.row, whole.pixel)
    n, h, w, c = whole.shape
    sizes = [n, c, h, w]
    sizes[axis] = count
    offset = whole.offset_bytes + start * steps[axis]
    return replace(whole, offset_bytes=offset, shape=(sizes[0], sizes[2], sizes[3], sizes[1]))
