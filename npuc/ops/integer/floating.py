"""The border between integers and float32 inside a graph, and the float operators that stand behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from isa import arithmetic
from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op


@dataclass(frozen=True)
class Quantize(Op):
    """float32 to integers, halves away from zero: `arithmetic.quantize`."""

    scale: float
    zero_point: int
    dtype: Literal["int8", "uint8", "int16"] = "int8"

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        _require(inputs[0], "float32")
        return (TensorType(self.dtype, inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (arithmetic.quantize(inputs[0], self.scale, self.zero_point, self.dtype, half_even=False),)


@dataclass(frozen=True)
class Dequantize(Op):
    """Integers to float32: `arithmetic.dequantize`."""

    scale: float
    zero_point: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        _require(inputs[0], "int8", "uint8", "int16")
        return (TensorType("float32", inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (arithmetic.dequantize(inputs[0], self.scale, self.zero_point),)


@dataclass(frozen=True)
class ToFloat(Op):
    """Integers as float32 of the same value, rounded to nearest."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        _require(inputs[0], "int8", "uint8", "int16", "int32", "int64", "bool")
        return (TensorType("float32", inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].astype(np.float32),)


@dataclass(frozen=True)
class SquareRoot(Op):
    """Square root of float32, rounded to nearest."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        _require(inputs[0], "float32")
        return (TensorType("float32", inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        with np.errstate(invalid="ignore"):
            return (np.sqrt(inputs[0]),)


@dataclass(frozen=True)
class Quotient(Op):
    """a / b of float32 with numpy broadcasting."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        for operand in inputs:
            _require(operand, "float32")
        return (TensorType("float32", np.broadcast_shapes(inputs[0].shape, inputs[1].shape)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return (np.divide(*inputs),)


@dataclass(frozen=True)
class LogSoftmax(Op):
    """x - max - log(sum(exp(x - max))) along the last axis of a float32 tensor.

    Every exponential, every partial sum from the first element on, and the logarithm are rounded to float32.
    """

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        _require(inputs[0], "float32")
        return (TensorType("float32", inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0] - inputs[0].max(axis=-1, keepdims=True)
        exponentials = np.exp(x.astype(np.float64)).astype(np.float32)
        total = np.add.accumulate(exponentials, axis=-1, dtype=np.float32)[..., -1:]
        return (x - np.log(total.astype(np.float64)).astype(np.float32),)


def _require(operand: TensorType, *dtypes: str) -> None:
    if operand.dtype not in dtypes:
        raise ValueError(f"input is {operand.dtype}, need {' or '.join(dtypes)}")
