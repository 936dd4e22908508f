"""Operators on positions, as calls of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npuc.arm.call import KernelCall, Rule, aligned, call, merge_axes
from npuc.arm.kernel_function import INDEX_FUNCTIONS, KINDS
from npuc.arm.kernel_spec import COPY_AXES, GATHER_AXES, PAIR
from npuc.arm.memory import MemoryMap, View
from npuc.ops.integer.indexing import ArgMax, GatherNd, IndexArithmetic
from npuc.ops.op import Op


def _arg_max(op: ArgMax, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    (source,) = inputs
    x, y = aligned(source.without(op.axis), output)
    return [call("arg_max", x=x, y=y, count=source.shape[op.axis], step=source.strides[op.axis],
                 x_kind=KINDS[source.dtype], y_kind=KINDS[output.dtype])]  # fmt: skip


def _index_arithmetic(
    op: IndexArithmetic, memory: MemoryMap, inputs: Sequence[View], output: View
) -> list[KernelCall]:
    operands = dict(zip(PAIR, aligned(*inputs, output), strict=True))
    return [call("index_arithmetic", **operands, function=INDEX_FUNCTIONS[op.function])]


def _gather_nd(op: GatherNd, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    data, indices = inputs
    depth, n_rows = indices.shape[-1], len(indices.shape) - 1
    if depth > GATHER_AXES:
        raise ValueError(f"indices of {depth} axes, limit {GATHER_AXES}")
    rows, y = aligned(
        indices.without(n_rows), replace(output, shape=output.shape[:n_rows], strides=output.strides[:n_rows])
    )
    shape, (source, destination) = merge_axes(
        (*data.shape[depth:], data.item_bytes), ((*data.strides[depth:], 1), (*output.strides[n_rows:], 1)), COPY_AXES
    )
    unused = GATHER_AXES - depth
    return [call(
        "gather_nd", data=data.block, indices=rows, y=y, depth=depth, index_step=indices.strides[-1],
        limit=(*data.shape[:depth], *(1,) * unused), stride=(*data.strides[:depth], *(0,) * unused), size=shape,
        source_stride=source, destination_stride=destination,
    )]  # fmt: skip


INDEX_RULES: dict[type[Op], Rule] = {
    ArgMax: _arg_max,
    IndexArithmetic: _index_arithmetic,
    GatherNd: _gather_nd,
}
