"""Operators on quantized tensors, as calls of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.arm.call import KernelCall, Rule, aligned, call, window_record
from npuc.arm.kernel_function import SQUASH_FUNCTIONS
from npuc.arm.kernel_spec import PAIR, Value
from npuc.arm.memory import NO_BLOCK, NO_TENSOR, Block, MemoryMap, View
from npuc.graph.types import TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.lstm import QLstm
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import Rescale
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.integer.squash import Squash
from npuc.ops.op import Op


def _conv(op: QConv, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, weights, bias = inputs[:3]
    scales = np.stack([np.asarray(op.multipliers), np.asarray(op.shifts)], axis=1).astype(np.int32)
    zero_point, clamp, addition = op.output_zero_point, op.clamp, _NO_ADDITION
    if (r := op.residual) is not None:
        if op.dtype != "int8":
            raise ValueError(f"a residual of {op.dtype}")
        zero_point, clamp = r.mid_zero_point, r.mid_clamp
        factors = map(_rescale, (r.accumulator, r.other, r.result))
        zero_points = (r.mid_zero_point, r.other_zero_point, op.output_zero_point)
        addition = (r.left_shift, *factors, *zero_points, *op.clamp)
    return [call(
        "conv2d", x=x.tensor(), weights=weights.tensor(), bias=bias.block, scales=memory.constant(scales).block,
        table=_table(op.table, memory), other=inputs[3].tensor() if op.residual else NO_TENSOR, y=output.tensor(),
        window=window_record(op.window), groups=op.groups, is_unsigned=x.dtype == "uint8", double_round=op.double_round,
        input_zero_point=op.input_zero_point, output_zero_point=zero_point,
        weight_zero_point=op.weight_zero_point, low=clamp[0], high=clamp[1], residual=addition,
        y_bytes=output.item_bytes,
    )]  # fmt: skip


_NO_ADDITION: tuple[Value, ...] = (0, (0, 0), (0, 0), (0, 0), 0, 0, 0, 0, 0)


def _table(table: tuple[int, ...] | None, memory: MemoryMap) -> Block:
    return NO_BLOCK if table is None else memory.constant(np.asarray(table, np.int8)).block


def _rescale(factor: Rescale) -> tuple[int, int]:
    return factor.multiplier, factor.shift


def _add(op: QAdd, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    factors = map(_rescale, (op.first, op.second, op.result))
    zero_points = (op.first_zero_point, op.second_zero_point, op.output_zero_point)
    return [call("add", **_pair(inputs, output), subtract=op.subtract,
                 constants=(op.left_shift, *factors, *zero_points, *op.clamp))]  # fmt: skip


def _mul(op: QMul, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [call(
        "mul", **_pair(inputs, output), first_zero_point=op.first_zero_point, second_zero_point=op.second_zero_point,
        output_zero_point=op.output_zero_point, factor=_rescale(op.result), low=op.clamp[0], high=op.clamp[1],
    )]  # fmt: skip


def _pair(inputs: Sequence[View], output: View) -> dict[str, Value]:
    views = (*inputs, output)
    widths = {f"{name}_bytes": view.item_bytes for name, view in zip(PAIR, views, strict=True)}
    return dict(zip(PAIR, aligned(*views), strict=True)) | widths


def _lookup(op: Lookup, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, y = aligned(inputs[0], output)
    table = memory.constant(np.asarray(op.table, op.dtype)).block
    return [call("table", x=x, table=table, y=y, is_unsigned=inputs[0].dtype == "uint8")]


def _squash(op: Squash, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, y = aligned(inputs[0], output)
    return [call("squash", x=x, y=y, function=SQUASH_FUNCTIONS[op.function], integer_bits=op.integer_bits)]


def _lstm(op: QLstm, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, weights, recurrent, bias = inputs
    if not bias.is_row_major:
        raise ValueError("bias with gaps between its elements")
    cell = memory.place(TensorType("int16", output.shape[2:]), [0])
    return [call(
        "lstm", x=x.tensor(), weights=weights.tensor(), recurrent=recurrent.tensor(), bias=bias.block, cell=cell.block,
        y=output.tensor(), input_zero_point=op.input_zero_point, hidden_zero_point=op.hidden_zero_point,
        input_factor=tuple(map(_rescale, op.input_rescales)),
        recurrent_factor=tuple(map(_rescale, op.recurrent_rescales)), forget=_rescale(op.forget),
        update=_rescale(op.update), output=_rescale(op.output), cell_integer_bits=op.cell_integer_bits,
        cell_clip=op.cell_clip,
    )]  # fmt: skip


def _max_pool(op: QMaxPool, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [call("max_pool", x=inputs[0].tensor(), y=output.tensor(), window=window_record(op.window), low=op.clamp[0],
                  high=op.clamp[1])]  # fmt: skip


def _average_pool(op: QAveragePool, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [call(
        "average_pool", x=inputs[0].tensor(), y=output.tensor(), window=window_record(op.window),
        include_pad=op.count_include_pad, input_zero_point=op.input_zero_point, halves_up=op.halves_up,
        low=op.clamp[0], high=op.clamp[1],
    )]  # fmt: skip


def _mean(op: QMean, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [call(
        "mean", x=inputs[0].tensor(), y=output.tensor(), factor=_rescale(op.rescale),
        input_zero_point=op.input_zero_point, output_zero_point=op.output_zero_point, low=op.clamp[0],
        high=op.clamp[1],
    )]  # fmt: skip


def _softmax(op: QSoftmax, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [call("softmax", x=inputs[0].tensor(), y=output.tensor(), multiplier=op.multiplier,
                  left_shift=op.left_shift, axis=op.axis)]  # fmt: skip


def _resize_bilinear(
    op: QResizeBilinear, memory: MemoryMap, inputs: Sequence[View], output: View
) -> list[KernelCall]:
    return [call("resize_bilinear", x=inputs[0].tensor(), y=output.tensor(), align_corners=op.align_corners,
                  half_pixel_centers=op.half_pixel_centers)]  # fmt: skip


INTEGER_RULES: dict[type[Op], Rule] = {
    QConv: _conv,
    QAdd: _add,
    QMul: _mul,
    Lookup: _lookup,
    Squash: _squash,
    QLstm: _lstm,
    QMaxPool: _max_pool,
    QAveragePool: _average_pool,
    QMean: _mean,
    QSoftmax: _softmax,
    QResizeBilinear: _resize_bilinear,
}
