"""Quantized softmax."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa import arithmetic
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.integer.operand import require_operand
from npuc.ops.op import Op

SOFTMAX_QUANT = QuantParams(1 / 256, -128)
"""Quantization of the result."""


@dataclass(frozen=True)
class QSoftmax(Op):
    """Softmax along `axis` of an int8 tensor of rank 4; `multiplier` and `left_shift` as `arithmetic.softmax_scale`."""

    multiplier: int
    left_shift: int
    axis: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_operand(inputs[0], "input")
        if not (0 <= self.axis < 4 and 0 <= self.left_shift <= 31 and 0 < self.multiplier < 1 << 31):
            raise ValueError(f"axis {self.axis}, multiplier {self.multiplier}, left shift {self.left_shift}: invalid")
        if inputs[0].shape[self.axis] > arithmetic.SOFTMAX_ROW:
            raise ValueError(f"softmax over {inputs[0].shape[self.axis]} elements, limit {arithmetic.SOFTMAX_ROW}")
        return (TensorType("int8", inputs[0].shape, SOFTMAX_QUANT),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (arithmetic.softmax(inputs[0], self.multiplier, self.left_shift, self.axis).astype(np.int8),)
