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

ORDER = (0, 1, 3, 2)
"""Gates as they are computed: those with a sigmoid first."""


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
        sums = self.dense(rows, self.weights, self.bias, self.op.input_rescales, self.op.input_zero_point)
        operands = self.recurrent_operands()
        hidden, cell, results = "", "", []
        for step in range(steps):
            gates = self.emit(Slice((0, 0, step, 0), (1, GATES * self.units, step + 1, 1), (1, 1, 1, 1)), sums)
            if hidden:
                back = self.emit(self.recurrent_op(), hidden, *operands)
                gates = self.emit(QAdd(0, SAME, SAME, SAME, 0, 0, 0, INT16, dtype="int16"), gates, back)
            hidden, cell = self.step(gates, cell)
            results.append(hidden)
        joined = self.emit(Concat(2), *results) if len(results) > 1 else results[0]
        flat = self.emit(Reshape((1, self.units, steps)), joined)
        self.nodes.append(self.graph.new_node(Transpose((0, 2, 1)), (flat,), self.node, self.node.outputs[0]))
        return self.nodes

    def step(self, gates: str, cell: str) -> tuple[str, str]:
        """Hidden state and cell behind one step."""
        units, op = self.units, self.op
        squashed = self.emit(Squash("sigmoid"), self.part(gates, 0, 3 * units))
        candidate = self.emit(Squash("tanh"), self.part(gates, 3 * units, GATES * units))
        enter, forget, leave = (self.part(squashed, i * units, (i + 1) * units) for i in range(3))
        limit = (-op.cell_clip, op.cell_clip) if op.cell_clip else INT16
        update = self.emit(QMul(op.update, 0, 0, 0, INT16 if cell else limit, "int16"), enter, candidate)
        if cell:
            kept = self.emit(QMul(op.forget, 0, 0, 0, INT16, "int16"), forget, cell)
            cell = self.emit(QAdd(0, SAME, SAME, SAME, 0, 0, 0, limit, dtype="int16"), kept, update)
        else:
            cell = update
        bounded = self.emit(Squash("tanh", op.cell_integer_bits), cell)
        return self.emit(QMul(op.output, 0, 0, op.hidden_zero_point, (-128, 127)), leave, bounded), cell

    def part(self, value: str, start: int, stop: int) -> str:
        return self.emit(Slice((0, start, 0, 0), (1, stop, 1, 1), (1, 1, 1, 1)), value)

    def dense(self, x: str, weights: Array, bias: Array, rescales: tuple[Rescale, ...], zero_point: int) -> str:
        return self.emit(self.dense_op(rescales, zero_point), x, *self.constants(weights, bias))

    def recurrent_operands(self) -> tuple[str, str]:
        return self.constants(self.recurrent, np.zeros_like(self.bias))

    def recurrent_op(self) -> QConv:
        return self.dense_op(self.op.recurrent_rescales, self.op.hidden_zero_point)

    def constants(self, weights: Array, bias: Array) -> tuple[str, str]:
        """Weights [4u,k] and bias [4u], gates in the order in which they are computed."""
        parts = np.split(weights, GATES), np.split(bias, GATES)
        ordered, sums = (np.concatenate([part[i] for i in ORDER]) for part in parts)
        return (self.graph.add_constant(ordered[:, :, None, None], f"{self.node.name}/weights"),
                self.graph.add_constant(sums, f"{self.node.name}/bias"))  # fmt: skip

    def dense_op(self, rescales: tuple[Rescale, ...], zero_point: int) -> QConv:
        channels = [rescales[i] for i in ORDER for _ in range(self.units)]
        return QConv(
            Window((1, 1)), 1, zero_point, 0, tuple(r.multiplier for r in channels), tuple(r.shift for r in channels),
            double_round=True, clamp=INT16, dtype="int16",
        )  # fmt: skip

    def emit(self, op: Op, *inputs: str) -> str:
        new = self.graph.new_node(op, inputs, self.node)
        self.nodes.append(new)
        return new.outputs[0]
