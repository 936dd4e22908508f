"""Operators on positions: where a maximum is, arithmetic on int32 indices, and what lies at an index."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op


@dataclass(frozen=True)
class ArgMax(Op):
    """Index of the first largest element along `axis`, which disappears."""

    axis: int
    dtype: Literal["int32", "int64"] = "int32"

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = inputs[0].shape
        if not 0 <= self.axis < len(shape):
            raise ValueError(f"axis {self.axis} of a tensor of rank {len(shape)}")
        return (TensorType(self.dtype, (*shape[: self.axis], *shape[self.axis + 1 :])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].argmax(axis=self.axis).astype(self.dtype),)


@dataclass(frozen=True)
class IndexArithmetic(Op):
    """int32 arithmetic modulo 2^32 with numpy broadcasting; `floor_div` rounds towards minus infinity."""

    function: Literal["add", "sub", "mul", "floor_div"]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        if [operand.dtype for operand in inputs] != ["int32", "int32"]:
            raise ValueError(f"operands are {', '.join(operand.dtype for operand in inputs)}, need int32 and int32")
        return (TensorType("int32", np.broadcast_shapes(inputs[0].shape, inputs[1].shape)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_div": np.floor_divide}
        return (np.asarray(functions[self.function](*inputs), np.int32),)


@dataclass(frozen=True)
class GatherNd(Op):
    """data[indices[..., 0], indices[..., 1], ...]: data of any type, indices int32 [..., depth] -> [..., rest of data].

    Indices must lie inside the data; those of a graph are clamped, so that no contents can leave it.
    """

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        data, indices = inputs
        if indices.dtype != "int32" or not indices.shape or not 1 <= indices.shape[-1] <= len(data.shape):
            raise ValueError(f"indices are {indices} on {list(data.shape)}, need int32[..., 1..{len(data.shape)}]")
        return (replace(data, shape=(*indices.shape[:-1], *data.shape[indices.shape[-1] :]), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        data, indices = inputs
        limits = np.array(data.shape[: indices.shape[-1]]) - 1
        return (data[tuple(np.moveaxis(np.clip(indices, 0, limits), -1, 0))],)
