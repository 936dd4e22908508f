"""One operator of an integer graph as calls of kernels: a rule for each operator, entered in RULES."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuc.arm.kernel_spec import COPY_AXES, KERNEL, Value, encode_parameters
from npuc.arm.memory import NO_BLOCK, NO_TENSOR, Block, MemoryMap, View
from npuc.graph.types import TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import Rescale
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose
from npuc.ops.window import Window


@dataclass(frozen=True)
class KernelCall:
    """A record of the Arm section: which kernel, and its parameter record."""

    kernel: str
    parameters: bytes

    @property
    def kernel_id(self) -> int:
        """The kernel's number."""
        return KERNEL[self.kernel].kernel_id

    @property
    def version(self) -> int:
        """Version of the kernel that the parameters are for."""
        return KERNEL[self.kernel].version


Rule = Callable[[Any, MemoryMap, Sequence[View], View], list[KernelCall]]
"""(operator, memory for constants and scratch, inputs, output) -> calls; the operator has the type of its entry."""


def kernel_calls(op: Op, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    """Calls that write `op` of the inputs to the output; KeyError for an operator that has no kernel."""
    return RULES[type(op)](op, memory, inputs, output)


def _call(kernel: str, **values: Value) -> KernelCall:
    return KernelCall(kernel, encode_parameters(KERNEL[kernel], values))


def _conv(op: QConv, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, weights, bias = inputs[:3]
    scales = np.stack([np.asarray(op.multipliers), np.asarray(op.shifts)], axis=1).astype(np.int32)
    zero_point, clamp, addition = op.output_zero_point, op.clamp, _NO_ADDITION
    if (r := op.residual) is not None:
        zero_point, clamp = r.mid_zero_point, r.mid_clamp
        factors = map(_rescale, (r.accumulator, r.other, r.result))
        zero_points = (r.mid_zero_point, r.other_zero_point, op.output_zero_point)
        addition = (r.left_shift, *factors, *zero_points, *op.clamp)
    return [_call(
        "conv2d", x=x.tensor(), weights=weights.tensor(), bias=bias.block, scales=memory.constant(scales).block,
        table=_table(op.table, memory), other=inputs[3].tensor() if op.residual else NO_TENSOR, y=output.tensor(),
        window=_window(op.window), groups=op.groups, is_unsigned=x.dtype == "uint8", double_round=op.double_round,
        input_zero_point=op.input_zero_point, output_zero_point=zero_point,
        weight_zero_point=op.weight_zero_point, low=clamp[0], high=clamp[1], residual=addition,
    )]  # fmt: skip


_NO_ADDITION: tuple[Value, ...] = (0, (0, 0), (0, 0), (0, 0), 0, 0, 0, 0, 0)


def _table(table: tuple[int, ...] | None, memory: MemoryMap) -> Block:
    return NO_BLOCK if table is None else memory.constant(np.asarray(table, np.int8)).block


def _rescale(factor: Rescale) -> tuple[int, int]:
    return factor.multiplier, factor.shift


def _window(window: Window) -> tuple[Value, ...]:
    return (window.kernel, window.stride, window.dilation, window.pads[:2])


def _add(op: QAdd, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    first, second = (view.broadcast(output.shape) for view in inputs)
    factors = map(_rescale, (op.first, op.second, op.result))
    zero_points = (op.first_zero_point, op.second_zero_point, op.output_zero_point)
    return [_call(
        "add", first=first.tensor(), second=second.tensor(), y=output.tensor(), subtract=op.subtract,
        constants=(op.left_shift, *factors, *zero_points, *op.clamp),
    )]  # fmt: skip


def _mul(op: QMul, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    first, second = (view.broadcast(output.shape) for view in inputs)
    return [_call(
        "mul", first=first.tensor(), second=second.tensor(), y=output.tensor(), first_zero_point=op.first_zero_point,
        second_zero_point=op.second_zero_point, output_zero_point=op.output_zero_point, factor=_rescale(op.result),
        low=op.clamp[0], high=op.clamp[1],
    )]  # fmt: skip


def _lookup(op: Lookup, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    shape, (x, y) = merge_axes(output.shape, (inputs[0].strides, output.strides), 4)
    at = ((*inputs[0].block,), shape, x), ((*output.block,), shape, y)
    table = memory.constant(np.asarray(op.table, op.dtype)).block
    return [_call("table", x=at[0], table=table, y=at[1], is_unsigned=inputs[0].dtype == "uint8")]


def _max_pool(op: QMaxPool, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_call("max_pool", x=inputs[0].tensor(), y=output.tensor(), window=_window(op.window), low=op.clamp[0],
                  high=op.clamp[1])]  # fmt: skip


def _average_pool(op: QAveragePool, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_call(
        "average_pool", x=inputs[0].tensor(), y=output.tensor(), window=_window(op.window),
        include_pad=op.count_include_pad, input_zero_point=op.input_zero_point, halves_up=op.halves_up,
        low=op.clamp[0], high=op.clamp[1],
    )]  # fmt: skip


def _mean(op: QMean, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_call(
        "mean", x=inputs[0].tensor(), y=output.tensor(), factor=_rescale(op.rescale),
        input_zero_point=op.input_zero_point, output_zero_point=op.output_zero_point, low=op.clamp[0],
        high=op.clamp[1],
    )]  # fmt: skip


def _softmax(op: QSoftmax, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_call("softmax", x=inputs[0].tensor(), y=output.tensor(), multiplier=op.multiplier,
                  left_shift=op.left_shift, axis=op.axis)]  # fmt: skip


def _resize(op: ResizeNearest, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_call("resize", x=inputs[0].tensor(), y=output.tensor(), factor=op.factors, item_bytes=output.item_bytes)]


def _resize_bilinear(
    op: QResizeBilinear, memory: MemoryMap, inputs: Sequence[View], output: View
) -> list[KernelCall]:
    return [_call("resize_bilinear", x=inputs[0].tensor(), y=output.tensor(), align_corners=op.align_corners,
                  half_pixel_centers=op.half_pixel_centers)]  # fmt: skip


def _reshape(op: Reshape, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    """Through row-major elements: one copy when either side has them, else two."""
    x = inputs[0]
    if x.is_row_major:
        return [copy(x.reshape(output.shape), output)]
    if output.is_row_major:
        return [copy(x, output.reshape(x.shape))]
    scratch = memory.place(TensorType(x.dtype, x.shape), range(len(x.shape)))  # type: ignore[arg-type]
    return [copy(x, scratch), copy(scratch.reshape(output.shape), output)]


def _transpose(op: Transpose, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [copy(inputs[0].transpose(op.perm), output)]


def _slice(op: Slice, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [copy(inputs[0].take(op.ranges()), output)]


def _concat(op: Concat, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    calls, start = [], 0
    for view in inputs:
        ranges = [range(size) for size in view.shape]
        ranges[op.axis] = range(start, start + view.shape[op.axis])
        calls.append(copy(view, output.take(ranges)))
        start += view.shape[op.axis]
    return calls


def _pad(op: Pad, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    """The whole output filled, then the input copied into it."""
    x = inputs[0]
    value = memory.constant(np.asarray(op.value).astype(x.dtype).reshape((1,) * len(output.shape)))
    inside = output.take(range(b, b + size) for b, size in zip(op.before, x.shape, strict=True))
    return [copy(value.broadcast(output.shape), output), copy(x, inside)]


def copy(source: View, destination: View) -> KernelCall:
    """Copy of elements between two views of one shape and dtype."""
    shape = (*destination.shape, destination.item_bytes)
    strides = ((*source.strides, 1), (*destination.strides, 1))
    shape, (source_strides, destination_strides) = merge_axes(shape, strides, COPY_AXES)
    return _call("copy", source=source.block, destination=destination.block, size=shape,
                 source_stride=source_strides, destination_stride=destination_strides)  # fmt: skip


def merge_axes(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], n_axes: int
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """`shape` and each of the `strides` with exactly `n_axes` axes, neighbors merged wherever all strides allow it.

    ValueError: more axes remain.
    """
    merged: list[list[int]] = []  # innermost first: size, then one stride for each operand
    for size, *steps in reversed(list(zip(shape, *strides, strict=True))):
        if size == 1:
            continue
        if merged and all(step == inner * merged[-1][0] for step, inner in zip(steps, merged[-1][1:], strict=True)):
            merged[-1][0] *= size
        else:
            merged.append([size, *steps])
    if len(merged) > n_axes:
        raise ValueError(f"{len(merged)} axes that cannot be merged, limit {n_axes}")
    merged += [[1, *(0 for _ in strides)]] * (n_axes - len(merged))
    sizes, *columns = zip(*reversed(merged), strict=True)
    return sizes, columns


RULES: dict[type[Op], Rule] = {
    QConv: _conv,
    QAdd: _add,
    QMul: _mul,
    Lookup: _lookup,
    QMaxPool: _max_pool,
    QAveragePool: _average_pool,
    QMean: _mean,
    QSoftmax: _softmax,
    ResizeNearest: _resize,
    QResizeBilinear: _resize_bilinear,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Concat: _concat,
    Pad: _pad,
}
