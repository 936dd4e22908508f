"""Recurrent layers become what the machine runs: dense layers, and a few small vector operators for each time step."""

from __future__ import annotations

import numpy as np

from isa.arithmetic import Rescale
from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import QAdd, QMul
from npuc.ops.integer.lstm import GATES, QLstm
from npuc.ops.integer.squash import Squash
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Reshape, Slice, Transpose
from npuc.ops.window import Window
from npuc.passes.rule import rewrite

SAME = Rescale(1 << 30, 30)
"""A factor of one."""

INT16 = (-32768, 32767)

TILES = (range(3), range(3, GATES))
"""Gates that one instruction computes from the hidden state. The output gate is needed last: while the array computes
it, the vector unit works on the others."""


@rewrite(QLstm)
def expand_lstm(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """An LSTM is one dense layer on all its inputs, then for each step a dense layer, sums, products, sigmoid, tanh.

    Before the first step everything is zero, so that this step has neither recurrent sums nor an old cell.
    """
    if not isinstance(node.op, QLstm) or graph.type_of(node.inputs[0]).shape[0] != 1:
        return Miss("more than one sequence at a time")
    weights = [graph.constant(name) for name in node.inputs[1:]]
    if any(array is None for array in weights):
        return Miss("its weights are computed")
    return Unrolled(graph, node, node.op, *(array for array in weights if array is not None)).run()


class Unrolled:
    """The nodes of one layer; values are [1,channels,1,1], those of all steps [1,channels,steps,1]."""

    def __init__(self, graph: Rewriter, node: Node, op: QLstm, weights: Array, recurrent: Array, bias: Array) -> None:
        self.graph, self.node, self.op = graph, node, op
        self.weights, self.recurrent, self.bias = weights, recurrent, bias
        self.units = recurrent.shape[1]
        self.nodes: list[Node] = []

    def run(self) -> list[Node]:
        """One step after the other, then their results joined."""
        _, steps, k = self.graph.type_of(self.node.inputs[0]).shape
        rows = self.emit(Reshape((1, k, steps, 1)), self.emit(Transpose((0, 2, 1)), self.node.inputs[0]))
        op = self.dense_op(range(GATES), self.op.input_rescales, self.op.input_zero_point)
        sums = self.emit(op, rows, *self.constants(range(GATES), self.weights, self.bias))
        recurrent = [self.constants(tile, self.recurrent, np.zeros_like(self.bias)) for tile in TILES]
        hidden, cell, results = "", "", []
        for step in range(steps):
            inner, leave = (self.gates(sums, step, tile) for tile in TILES)
            if hidden:
                inner, leave = (
                    self.fed_back(*each, hidden) for each in zip((inner, leave), TILES, recurrent, strict=True)
                )
            hidden, cell = self.step(inner, leave, cell)
            results.append(hidden)
        joined = self.emit(Concat(2), *results) if len(results) > 1 else results[0]
        flat = self.emit(Reshape((1, self.units, steps)), joined)
        self.nodes.append(self.graph.new_node(Transpose((0, 2, 1)), (flat,), self.node, self.node.outputs[0]))
        return self.nodes

    def gates(self, sums: str, step: int, tile: range) -> str:
        """What the inputs of a step give to the gates of a tile."""
        first, last = (0, tile.start * self.units, step, 0), (1, tile.stop * self.units, step + 1, 1)
        return self.emit(Slice(first, last, (1, 1, 1, 1)), sums)

    def fed_back(self, fed: str, tile: range, operands: tuple[str, str], hidden: str) -> str:
        """The gates of a tile, with what the hidden state gives to them."""
        op = self.dense_op(tile, self.op.recurrent_rescales, self.op.hidden_zero_point)
        back = self.emit(op, hidden, *operands)
        return self.emit(QAdd(0, SAME, SAME, SAME, 0, 0, 0, INT16, dtype="int16"), fed, back)

    def step(self, inner: str, leave: str, cell: str) -> tuple[str, str]:
        """Hidden state and cell behind one step; `inner` are input gate, forget gate and candidate.

        The order is that of the vector unit, in which nothing should stand behind what it has to wait for.
        """
        op = self.op
        clip = (-op.cell_clip, op.cell_clip) if op.cell_clip else INT16
        alone = INT16 if cell or self.largest_update() <= clip[1] else clip
        forget = self.emit(Squash("sigmoid"), self.gate(inner, 1)) if cell else ""
        candidate = self.emit(Squash("tanh"), self.gate(inner, 2))
        enter = self.emit(Squash("sigmoid"), self.gate(inner, 0))
        kept = self.emit(QMul(op.forget, 0, 0, 0, INT16, "int16"), forget, cell) if cell else ""
        update = self.emit(QMul(op.update, 0, 0, 0, alone, "int16"), enter, candidate)
        cell = self.emit(QAdd(0, SAME, SAME, SAME, 0, 0, 0, clip, dtype="int16"), kept, update) if cell else update
        leave = self.emit(Squash("sigmoid"), leave)
        bounded = self.emit(Squash("tanh", op.cell_integer_bits), cell)
        return self.emit(QMul(op.output, 0, 0, op.hidden_zero_point, (-128, 127)), leave, bounded), cell

    def largest_update(self) -> int:
        """What no product of input gate and candidate exceeds, once it is rescaled."""
        return (self.op.update.multiplier << 30 >> self.op.update.shift) + 1

    def gate(self, gates: str, index: int) -> str:
        start, stop = index * self.units, (index + 1) * self.units
        return self.emit(Slice((0, start, 0, 0), (1, stop, 1, 1), (1, 1, 1, 1)), gates)

    def constants(self, tile: range, weights: Array, bias: Array) -> tuple[str, str]:
        """Weights and bias of the gates of a tile, from weights [4u,k] and bias [4u] of all gates."""
        rows = slice(tile.start * self.units, tile.stop * self.units)
        return (self.graph.add_constant(weights[rows, :, None, None], f"{self.node.name}/weights"),
                self.graph.add_constant(bias[rows], f"{self.node.name}/bias"))  # fmt: skip

    def dense_op(self, tile: range, rescales: tuple[Rescale, ...], zero_point: int) -> QConv:
        channels = [rescales[i] for i in tile for _ in range(self.units)]
        return QConv(
            Window((1, 1)), 1, zero_point, 0, tuple(r.multiplier for r in channels), tuple(r.shift for r in channels),
            double_round=True, clamp=INT16, dtype="int16",
        )  # fmt: skip

    def emit(self, op: Op, *inputs: str) -> str:
        new = self.graph.new_node(op, inputs, self.node)
        self.nodes.append(new)
        return new.outputs[0]
