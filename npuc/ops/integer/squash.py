"""Sigmoid and tanh of int16 values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from isa.sigmoid import SIGMOID_INTEGER_BITS, sigmoid16, tanh16
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.operand import require_operand
from npuc.ops.op import Op


@dataclass(frozen=True)
class Squash(Op):
    """x int16 [n,c,h,w] with scale 2^-(15 - integer_bits) -> y int16 with scale 2^-15; a sigmoid has 3 integer bits."""

    function: Literal["sigmoid", "tanh"]
    integer_bits: int = SIGMOID_INTEGER_BITS

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_operand(inputs[0], "input", dtypes=("int16",))
        is_fixed = self.function == "tanh" or self.integer_bits == SIGMOID_INTEGER_BITS
        if not is_fixed or not 0 <= self.integer_bits <= 15:
            raise ValueError(f"{self.function} of a value with {self.integer_bits} integer bits")
        return (TensorType("int16", inputs[0].shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.int64)
        y = sigmoid16(x) if self.function == "sigmoid" else tanh16(x, self.integer_bits)
        return (y.astype(np.int16),)
