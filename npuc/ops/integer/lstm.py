"""Quantized LSTM: int8 hidden state, int16 cell state and gates, as in TensorFlow Lite Micro."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa import arithmetic
from isa.fixed_point import Int64Array
from isa.sigmoid import sigmoid16, tanh16
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.rescale import Rescale
from npuc.ops.op import Op

GATES = 4
"""Input gate, forget gate, candidate and output gate, in this order wherever their constants lie together."""


@dataclass(frozen=True)
class QLstm(Op):
    """x int8 [b,t,k], weights int8 [4u,k], recurrent weights int8 [4u,u], bias int32 [4u] -> y int8 [b,t,u].

    Before the first step hidden state and cell are zero. Each step: a gate is the sum, saturated to int16, of two dense
    layers that are rescaled to scale 2^-12, of x and of the hidden state; then a sigmoid, for the candidate tanh, with
    scale 2^-15. The cell is the saturated sum of forget * cell and input * candidate, both rescaled to its own scale
    2^-(15 - cell_integer_bits), clamped to +-cell_clip unless that is 0. The hidden state is output * tanh(cell),
    rescaled.
    """

    input_zero_point: int
    hidden_zero_point: int
    input_rescales: tuple[Rescale, Rescale, Rescale, Rescale]
    recurrent_rescales: tuple[Rescale, Rescale, Rescale, Rescale]
    forget: Rescale
    update: Rescale
    output: Rescale
    cell_integer_bits: int
    cell_clip: int = 0

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x, recurrent = inputs[0], inputs[2]
        if len(x.shape) != 3 or len(recurrent.shape) != 2:
            raise ValueError(f"input {list(x.shape)}, recurrent weights {list(recurrent.shape)}, need ranks 3 and 2")
        (batch, steps, k), units = x.shape, recurrent.shape[1]
        shapes = (x.shape, (GATES * units, k), (GATES * units, units), (GATES * units,))
        needed = list(zip(("int8", "int8", "int8", "int32"), shapes, strict=True))
        if [(operand.dtype, operand.shape) for operand in inputs] != needed:
            raise ValueError(f"operands are {', '.join(map(str, inputs))}, need {needed}")
        if not 0 <= self.cell_integer_bits <= 15 or not 0 <= self.cell_clip <= 32767:
            raise ValueError(f"cell with {self.cell_integer_bits} integer bits, clipped at {self.cell_clip}")
        return (TensorType("int8", (batch, steps, units)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, weights, recurrent, bias = inputs
        units, results = recurrent.shape[1], []
        hidden = np.full((x.shape[0], units), self.hidden_zero_point, np.int8)
        state = np.zeros((x.shape[0], units), np.int64)
        for step in range(x.shape[1]):
            sums = _dense(x[:, step], weights, self.input_zero_point) + bias
            back = _dense(hidden, recurrent, self.hidden_zero_point)
            hidden, state = self._step(np.split(sums, GATES, axis=1), np.split(back, GATES, axis=1), state)
            results.append(hidden)
        return (np.stack(results, axis=1),)

    def _step(self, sums: list[Int64Array], back: list[Int64Array], state: Int64Array) -> tuple[Array, Int64Array]:
        gates = [
            _saturate16(_saturate16(_scale(a, own)) + _saturate16(_scale(b, fed)))
            for a, b, own, fed in zip(sums, back, self.input_rescales, self.recurrent_rescales, strict=True)
        ]
        enter, forget, leave = (sigmoid16(gates[i]) for i in (0, 1, 3))
        kept = _saturate16(_scale(forget * state, self.forget))
        state = _saturate16(kept + _saturate16(_scale(enter * tanh16(gates[2], 3), self.update)))
        if self.cell_clip:
            state = np.clip(state, -self.cell_clip, self.cell_clip)
        scaled = _scale(leave * tanh16(state, self.cell_integer_bits), self.output)
        return np.clip(scaled + self.hidden_zero_point, -128, 127).astype(np.int8), state


def _dense(x: Array, weights: Array, zero_point: int) -> Int64Array:
    return (x.astype(np.int64) - zero_point) @ weights.astype(np.int64).T


def _scale(value: Int64Array, factor: Rescale) -> Int64Array:
    return arithmetic.rescale(value, factor.multiplier, factor.shift)


def _saturate16(value: Int64Array) -> Int64Array:
    return np.clip(value, -32768, 32767)
