"""Operators that only move bytes: views cost nothing, conversions are copies, padding fills the border."""

from __future__ import annotations

from dataclasses import replace

from isa.target import Target
from npuc.graph.graph import Graph, Node
from npuc.graph.types import ITEM_BYTES, TensorType
from npuc.layout.trans_data import TransData
from npuc.lower.kernel import Kernel, Parameters, lowers
from npuc.lower.operand import ELEMENTS, Operand, element_type, flat_operands
from npuc.lower.vector import constant_operand, strided_operands
from npuc.ops.structure import Concat, Pad, Reshape, Slice, Transpose


@lowers(Reshape, Transpose, Slice, Concat)
def lower_view(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """The operands already share their bytes."""
    return []


@lowers(TransData)
def lower_trans_data(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """TransData => vec.copy; elements that no instruction computes with move byte by byte."""
    types = [_bytes(graph.values[name]) for name in (node.inputs[0], node.outputs[0])]
    (source, result), spatial = strided_operands(types, target.architecture.channel_block)
    source, constant = constant_operand(graph, source)
    fields, parameters = {"clamp_low": -128, "clamp_high": 127}, Parameters(operand=constant)
    return [Kernel(node.name, "vec.copy", node.sources, result, source, None, fields, parameters, spatial=spatial)]


def _bytes(type_: TensorType) -> TensorType:
    """The type itself, or its bytes along one more axis."""
    layout, item_bytes = type_.layout, ITEM_BYTES[type_.dtype]
    if layout is None or type_.dtype in ELEMENTS:
        return type_
    inner = replace(layout, strides=(*layout.strides, 1))
    return TensorType("int8", (*type_.shape, item_bytes), None, inner)


@lowers(Pad)
def lower_pad(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """Pad => a dma.fill for each border; the input was written in place."""
    op = node.op
    if not isinstance(op, Pad):
        raise ValueError("not a pad")
    whole = graph.values[node.outputs[0]]
    kernels: list[Kernel] = []
    for axis, (size, low, high) in enumerate(zip(whole.shape, op.before, op.after, strict=True)):
        for start, count in ((0, low), (size - high, high)):
            if count:
                part = _border(whole, axis, start, count, target.architecture.channel_block)
                fields = {"value": int(op.value) & 255}
                kernels.append(Kernel(f"{node.name}.{len(kernels)}", "dma.fill", node.sources, part, fields=fields))
    return kernels


def _border(whole: TensorType, axis: int, start: int, count: int, channel_block: int) -> Operand:
    """Indices [start, start + count) of one axis, as the four dimensions of a fill, the innermost contiguous."""
    layout = whole.layout
    if layout is None or layout.block or ITEM_BYTES[whole.dtype] != 1:
        raise ValueError("padding needs a tensor of bytes that is not cut into channel blocks")
    sizes = [count if i == axis else size for i, size in enumerate(whole.shape)]
    space, ((batch, row, pixel, block, c0),) = flat_operands(sizes, [layout.strides], [1], channel_block)
    if c0 == 1 and space[3] > 1:
        if space[0] > 1:
            raise ValueError("padding of four axes that lie apart")
        space, batch, row, pixel, block, c0 = (*space[1:], 1), row, pixel, block, channel_block, channel_block
    offset = layout.offset_bytes + start * layout.strides[axis]
    return Operand(layout.storage, offset, space, batch, row, pixel, block, c0, element_type(whole.dtype))
