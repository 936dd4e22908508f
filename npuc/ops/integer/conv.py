"""Quantized convolution with the whole output stage: requantization, clamp, table, residual addition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from isa import arithmetic
from isa.arithmetic import Addition
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.accumulate import convolve
from npuc.ops.integer.operand import Range, require_operand, require_range, require_table
from npuc.ops.integer.rescale import Rescale
from npuc.ops.op import Op
from npuc.ops.window import Window


@dataclass(frozen=True)
class Residual:
    """Addition of another tensor in the output stage, after the table.

    The requantized accumulator has zero point `mid_zero_point` and is clamped to `mid_clamp`; the sum takes zero point
    and clamp of the convolution.
    """

    left_shift: int
    accumulator: Rescale
    other: Rescale
    result: Rescale
    mid_zero_point: int
    mid_clamp: Range
    other_zero_point: int


@dataclass(frozen=True)
class QConv(Op):
    """Convolution: x int8|uint8 [n,ic,h,w], weights int8 [oc,ic/groups,kh,kw], bias int32 [oc], with a residual also
    other [n,oc,oh,ow] of the output's type -> y int8 [n,oc,oh,ow], or int16 where there is no table.

    Padding reads the input zero point. Output stage: accumulator + bias, times multipliers[oc] / 2^shifts[oc], plus
    zero point, clamp, table, residual. `weight_zero_point` is that of all weights; it is 0 except in models that come
    with uint8 weights. A dense layer is a 1x1 convolution on [n,k,1,1].
    """

    window: Window
    groups: int
    input_zero_point: int
    output_zero_point: int
    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    double_round: bool
    clamp: Range
    table: tuple[int, ...] | None = None
    residual: Residual | None = None
    weight_zero_point: int = 0
    dtype: Literal["int8", "int16"] = "int8"

    @property
    def is_depthwise(self) -> bool:
        """groups == ic == oc > 1: each channel has one kernel of its own (`infer` refuses groups == oc < ic)."""
        return self.groups > 1 and self.groups == len(self.multipliers)

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        if len(inputs) != 3 + (self.residual is not None):
            raise ValueError(f"{len(inputs)} operands, need {3 + (self.residual is not None)}")
        x, weights, bias = inputs[:3]
        require_operand(x, "input", self.input_zero_point, ("int8", "uint8"))
        require_operand(weights, "weights", self.weight_zero_point)
        self._require_weights(x, weights, bias)
        require_range(self.clamp, self.dtype)
        if self.dtype != "int8" and self.table is not None:
            raise ValueError(f"{self.dtype} output with a table")
        if self.table is not None:
            require_table(self.table)
        oh, ow = self.window.output_shape(*x.shape[2:])
        y = TensorType(self.dtype, (x.shape[0], weights.shape[0], oh, ow))
        if self.residual is not None:
            require_range(self.residual.mid_clamp, self.dtype)
            require_operand(inputs[3], "residual", self.residual.other_zero_point, (self.dtype,))
            if inputs[3].shape != y.shape:
                raise ValueError(f"residual {list(inputs[3].shape)} differs from the output {list(y.shape)}")
        return (y,)

    def _require_weights(self, x: TensorType, weights: TensorType, bias: TensorType) -> None:
        oc, depth, *kernel = weights.shape
        if tuple(kernel) != self.window.kernel:
            raise ValueError(f"weights {list(weights.shape)} do not have the kernel {list(self.window.kernel)}")
        if self.groups < 1 or depth * self.groups != x.shape[1] or oc % self.groups:
            raise ValueError(f"weights {list(weights.shape)} in {self.groups} groups on {x.shape[1]} channels")
        if self.is_depthwise and depth != 1:
            raise ValueError(f"{depth} input channels for each of {oc} outputs in {oc} groups; use dense weights")
        if not len(self.multipliers) == len(self.shifts) == oc:
            raise ValueError(f"{len(self.multipliers)} multipliers, {len(self.shifts)} shifts, {oc} output channels")
        if (bias.dtype, bias.shape) != ("int32", (oc,)):
            raise ValueError(f"bias is {bias}, need int32[{oc}]")
        if not all(0 <= m < 1 << 31 and 2 <= s <= 62 for m, s in zip(self.multipliers, self.shifts, strict=True)):
            raise ValueError("a multiplier is outside 0..2^31-1 or a shift outside 2..62")

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, weights, bias = inputs[:3]
        sums = convolve(x, weights, self.window, self.groups, self.input_zero_point, self.weight_zero_point)
        return (self.output_stage(sums + bias[:, None, None], *inputs[3:]),)

    def output_stage(self, acc: Array, other: Array | None = None) -> Array:
        """Output of int32 accumulators, bias included; both [n,oc,oh,ow]."""
        multipliers = np.asarray(self.multipliers, np.int64)[:, None, None]
        shifts = np.asarray(self.shifts, np.int64)[:, None, None]
        zero_point, (low, high) = self.output_zero_point, self.clamp
        if self.residual is not None:
            zero_point, (low, high) = self.residual.mid_zero_point, self.residual.mid_clamp
        y: Array = arithmetic.requantize(acc, multipliers, shifts, zero_point, low, high, self.double_round)
        y = y.astype(self.dtype)
        if self.table is not None:
            y = arithmetic.lookup(np.asarray(self.table, np.int8), y)
        if self.residual is not None and other is not None:
            y = arithmetic.residual(y, other, self._addition(self.residual)).astype(self.dtype)
        return y

    def _addition(self, residual: Residual) -> Addition:
        return Addition(
            residual.left_shift, residual.accumulator, residual.other, residual.result,
            residual.mid_zero_point, residual.other_zero_point, self.output_zero_point, *self.clamp,
        )  # fmt: skip
