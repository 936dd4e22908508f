"""Pooling, element-wise arithmetic, tables, softmax and resizing on the vector unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isa.descriptors import ElementType
from isa.target import Target
from npuc.errors import InvalidGraph
from npuc.graph.graph import Graph, Node
from npuc.graph.types import ITEM_BYTES, Layout, TensorType
from npuc.lower.conv import window_fields
from npuc.lower.kernel import PARAMETERS, POINT, Kernel, Parameters, lowers
from npuc.lower.operand import Operand, element_type, flat_operands, image_operand
from npuc.lower.table_on_array import table_on_array
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.integer.squash import Squash
from npuc.ops.structure import ResizeNearest
from npuc.ops.window import Window


def elementwise_operands(graph: Graph, node: Node, names: list[str], target: Target) -> tuple[list[Operand], bool]:
    """Operands of an element-wise node, the output last, and whether their rows are image rows."""
    return strided_operands([graph.values[name] for name in names], target.architecture.channel_block)


def strided_operands(types: list[TensorType], block: int) -> tuple[list[Operand], bool]:
    """Operands with one iteration space, that of the last, and whether their rows are image rows."""
    is_blocked = any(_layout(type_).block for type_ in types)
    has_rows = len(types[-1].shape) == 4 and types[-1].shape[2:] != (1, 1)
    if is_blocked or (has_rows and all(_is_image(type_) for type_ in types)):
        return [_broadcast(image_operand(type_, block), types[-1].shape[1]) for type_ in types], True
    shape = types[-1].shape
    strides = [
        [step if size == out else 0 for step, size, out in zip(_layout(type_).strides, type_.shape, shape, strict=True)]
        for type_ in types
    ]
    space, records = flat_operands(shape, strides, [ITEM_BYTES[type_.dtype] for type_ in types], block)
    operands = []
    for type_, (batch, row, pixel, block_step, c0) in zip(types, records, strict=True):
        layout = _layout(type_)
        zero = type_.quant.zero_point if type_.quant else 0
        operands.append(
            Operand(
                layout.storage,
                layout.offset_bytes,
                space,
                batch,
                row,
                pixel,
                block_step,
                c0,
                element_type(type_.dtype),
                zero,
            )
        )
    return operands, False


def _broadcast(operand: Operand, channels: int) -> Operand:
    """The operand with its only channel repeated; rows and pixels repeat because their strides are zero."""
    n, h, w, c = operand.shape
    if c == channels:
        return operand
    return replace(operand, shape=(n, h, w, channels), c0=1, block=0, last_pixel=0, last_row=0)


def _layout(type_: TensorType) -> Layout:
    if type_.layout is None:
        raise InvalidGraph(f"{type_} has no layout", stage="lower")
    return type_.layout


def _is_image(type_: TensorType) -> bool:
    layout, item = _layout(type_), ITEM_BYTES[type_.dtype]
    return len(type_.shape) == 4 and (bool(layout.block) or layout.strides[1] == item or type_.shape[1] == 1)


def _clamp(clamp: tuple[int, int]) -> dict[str, int]:
    return {"clamp_low": clamp[0], "clamp_high": clamp[1]}


def constant_operand(graph: Graph, operand: Operand) -> tuple[Operand, bytes]:
    """A constant operand moves into the kernel's parameters."""
    if operand.storage not in graph.constants:
        return operand, b""
    return replace(operand, storage=PARAMETERS), np.ascontiguousarray(graph.constants[operand.storage]).tobytes()


@lowers(QAdd, QMul)
def lower_binary(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """QAdd => vec.add or vec.sub, QMul => vec.mul; broadcasting through strides of zero."""
    op = node.op
    (first, second, result), spatial = elementwise_operands(graph, node, [*node.inputs, *node.outputs], target)
    if isinstance(op, QAdd):
        mnemonic = "vec.sub" if op.subtract else "vec.add"
        fields = {
            "left_shift": op.left_shift,
            "multiplier_1": op.first.multiplier,
            "shift_1": op.first.shift,
            "multiplier_2": op.second.multiplier,
            "shift_2": op.second.shift,
        }
    elif isinstance(op, QMul):
        mnemonic, fields = "vec.mul", {}
    else:
        raise ValueError(f"{op.kind} is no binary operator")
    fields |= {"multiplier_out": op.result.multiplier, "shift_out": op.result.shift, **_clamp(op.clamp)}
    first, one = constant_operand(graph, replace(first, zero_point=op.first_zero_point))
    second, two = constant_operand(graph, replace(second, zero_point=op.second_zero_point))
    if one and two:
        raise ValueError("both operands are constant")
    result = replace(result, zero_point=op.output_zero_point)
    return [
        Kernel(
            node.name,
            mnemonic,
            node.sources,
            result,
            first,
            second,
            fields,
            Parameters(operand=one or two),
            spatial=spatial,
        )
    ]


@lowers(Lookup)
def lower_table(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """Lookup => vec.table, or a convolution where that is much faster."""
    op = node.op
    if not isinstance(op, Lookup):
        raise ValueError("not a table")
    on_array = table_on_array(node, graph.values[node.inputs[0]], graph.values[node.outputs[0]], target)
    if on_array:
        return on_array
    (source, result), spatial = elementwise_operands(graph, node, [node.inputs[0], node.outputs[0]], target)
    table = np.array(op.table, op.dtype).tobytes()
    return [
        Kernel(
            node.name,
            "vec.table",
            node.sources,
            result,
            source,
            fields=_clamp((0, 255) if op.dtype == "uint8" else (-128, 127)),
            parameters=Parameters(table=table),
            spatial=spatial,
        )
    ]


@lowers(Squash)
def lower_squash(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """Squash => vec.sigmoid or vec.tanh."""
    op = node.op
    if not isinstance(op, Squash):
        raise ValueError("no squashing function")
    (source, result), spatial = elementwise_operands(graph, node, [node.inputs[0], node.outputs[0]], target)
    fields = {"left_shift": op.integer_bits, **_clamp((-32768, 32767))}
    return [Kernel(node.name, f"vec.{op.function}", node.sources, result, source, fields=fields, spatial=spatial)]


def _image_kernel(
    graph: Graph,
    node: Node,
    target: Target,
    mnemonic: str,
    fields: dict[str, int],
    window: Window = POINT,
    *,
    whole_input: bool = False,
) -> Kernel:
    block = target.architecture.channel_block
    ofm = image_operand(graph.values[node.outputs[0]], block)
    ifm = image_operand(graph.values[node.inputs[0]], block)
    return Kernel(
        node.name, mnemonic, node.sources, ofm, ifm, fields=fields, spatial=True, window=window, whole_input=whole_input
    )


@lowers(QMaxPool, QAveragePool)
def lower_pool(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """QMaxPool => vec.maxpool, QAveragePool => vec.avgpool."""
    op = node.op
    if not isinstance(op, QMaxPool | QAveragePool):
        raise ValueError("not a pooling operator")
    fields = {**window_fields(op.window), **_clamp(op.clamp)}
    if isinstance(op, QAveragePool):
        fields |= {"count_pad": int(op.count_include_pad), "halves_up": int(op.halves_up)}
    mnemonic = "vec.maxpool" if isinstance(op, QMaxPool) else "vec.avgpool"
    return [_image_kernel(graph, node, target, mnemonic, fields, op.window)]


@lowers(QMean)
def lower_mean(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """QMean => vec.mean."""
    op = node.op
    if not isinstance(op, QMean):
        raise ValueError("not a mean")
    fields = {"multiplier_out": op.rescale.multiplier, "shift_out": op.rescale.shift, **_clamp(op.clamp)}
    return [_image_kernel(graph, node, target, "vec.mean", fields, whole_input=True)]


@lowers(ResizeNearest)
def lower_resize(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """ResizeNearest => vec.resize."""
    op = node.op
    if not isinstance(op, ResizeNearest):
        raise ValueError("not a resize")
    fields = {"stride_h": op.factors[0], "stride_w": op.factors[1], **_clamp((-128, 127))}
    return [_image_kernel(graph, node, target, "vec.resize", fields)]


@lowers(QResizeBilinear)
def lower_bilinear(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """QResizeBilinear => vec.bilinear."""
    op = node.op
    if not isinstance(op, QResizeBilinear):
        raise ValueError("not a bilinear resize")
    height, width = graph.values[node.inputs[0]].shape[2:]
    (down, top), (across, left) = op.steps(0, height), op.steps(1, width)
    fields = {"multiplier_1": down, "mid_low": top, "multiplier_2": across, "mid_high": left, **_clamp((-128, 127))}
    return [_image_kernel(graph, node, target, "vec.bilinear", fields)]


@lowers(QSoftmax)
def lower_softmax(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """QSoftmax => vec.softmax with the softmax axis as channels."""
    op = node.op
    if not isinstance(op, QSoftmax):
        raise ValueError("not a softmax")
    types, block = [graph.values[name] for name in (node.inputs[0], node.outputs[0])], target.architecture.channel_block
    if any(_layout(type_).block for type_ in types):
        if op.axis != 1:
            raise ValueError("softmax over a spatial axis of a blocked tensor")
        operands = [image_operand(type_, block) for type_ in types]
    else:
        operands = [_softmax_operand(type_, op.axis, block) for type_ in types]
    fields = {"multiplier_1": op.multiplier, "left_shift": op.left_shift, **_clamp((-128, 127))}
    return [
        Kernel(node.name, "vec.softmax", node.sources, operands[1], operands[0], fields=fields, fixed_channels=True)
    ]


def _softmax_operand(type_: TensorType, axis: int, channel_block: int) -> Operand:
    layout = _layout(type_)
    rest = [
        (size, step)
        for i, (size, step) in enumerate(zip(type_.shape, layout.strides, strict=True))
        if i != axis and size != 1
    ]
    if len(rest) > 3:
        raise ValueError(f"softmax over {len(rest) + 1} axes; the machine has four")
    rest = [(1, 0)] * (3 - len(rest)) + rest
    step, block = layout.strides[axis], channel_block
    c0, stride = (block, block) if step == 1 or type_.shape[axis] == 1 else (1, step)
    shape = (rest[0][0], rest[1][0], rest[2][0], type_.shape[axis])
    zero = type_.quant.zero_point if type_.quant else 0
    return Operand(
        layout.storage,
        layout.offset_bytes,
        shape,
        rest[0][1],
        rest[1][1],
        rest[2][1],
        stride,
        c0,
        ElementType.INT8,
        zero,
    )
