"""Operators that move elements, as copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.arm.call import KernelCall, Rule, call, merge_axes
from npuc.arm.kernel_spec import COPY_AXES
from npuc.arm.memory import MemoryMap, View
from npuc.graph.types import TensorType
from npuc.layout.trans_data import TransData
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose


def _resize(op: ResizeNearest, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [call("resize", x=inputs[0].tensor(), y=output.tensor(), factor=op.factors, item_bytes=output.item_bytes)]


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


def _trans_data(op: TransData, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [copy(inputs[0], output)]


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
    return call("copy", source=source.block, destination=destination.block, size=shape,
                 source_stride=source_strides, destination_stride=destination_strides)  # fmt: skip


MOVE_RULES: dict[type[Op], Rule] = {
    ResizeNearest: _resize,
    Reshape: _reshape,
    Transpose: _transpose,
    Slice: _slice,
    Concat: _concat,
    Pad: _pad,
    TransData: _trans_data,
}
