"""Quantized elementwise operators; two operands of equal rank broadcast as in numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from isa import arithmetic
from isa.arithmetic import Addition
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.operand import Range, require_operand, require_range, require_table
from npuc.ops.integer.rescale import Rescale
from npuc.ops.op import Op


@dataclass(frozen=True)
class QAdd(Op):
    """Rescaled sum of two int8 or int16 tensors of rank 4, or their difference with `subtract`, as `dtype`."""

    left_shift: int
    first: Rescale
    second: Rescale
    result: Rescale
    first_zero_point: int
    second_zero_point: int
    output_zero_point: int
    clamp: Range
    subtract: bool = False
    dtype: Literal["int8", "int16"] = "int8"

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return _infer_pair(inputs, (self.first_zero_point, self.second_zero_point), self.clamp, self.dtype)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        constants = Addition(
            self.left_shift, self.first, self.second, self.result,
            self.first_zero_point, self.second_zero_point, self.output_zero_point, *self.clamp,
        )  # fmt: skip
        combine = arithmetic.sub if self.subtract else arithmetic.add
        return (combine(inputs[0], inputs[1], constants).astype(self.dtype),)


@dataclass(frozen=True)
class QMul(Op):
    """Rescaled product of two int8 or int16 tensors of rank 4, as `dtype`."""

    result: Rescale
    first_zero_point: int
    second_zero_point: int
    output_zero_point: int
    clamp: Range
    dtype: Literal["int8", "int16"] = "int8"

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return _infer_pair(inputs, (self.first_zero_point, self.second_zero_point), self.clamp, self.dtype)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        y = arithmetic.mul(
            inputs[0], inputs[1], self.first_zero_point, self.second_zero_point,
            self.result, self.output_zero_point, *self.clamp,
        )  # fmt: skip
        return (y.astype(self.dtype),)


@dataclass(frozen=True)
class Lookup(Op):
    """table[x - smallest value of its type] for each element: x int8|uint8 -> y `dtype`, of any shape."""

    table: tuple[int, ...]
    dtype: Literal["int8", "uint8"] = "int8"

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_table(self.table, self.dtype)
        if inputs[0].dtype not in ("int8", "uint8"):
            raise ValueError(f"input is {inputs[0].dtype}, need int8 or uint8")
        return (TensorType(self.dtype, inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (arithmetic.lookup(np.asarray(self.table, self.dtype), inputs[0]),)


def _infer_pair(
    inputs: tuple[TensorType, ...], zero_points: tuple[int, int], clamp: Range, dtype: Literal["int8", "int16"]
) -> tuple[TensorType, ...]:
    if len(inputs) != 2:
        raise ValueError(f"{len(inputs)} operands, need 2")
    for role, operand, zero_point in zip(("first operand", "second operand"), inputs, zero_points, strict=True):
        require_operand(operand, role, zero_point, ("int8", "int16"))
    require_range(clamp, dtype)
    return (TensorType(dtype, np.broadcast_shapes(inputs[0].shape, inputs[1].shape)),)
