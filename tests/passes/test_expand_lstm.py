"""The unrolled form of an LSTM gives the bytes of the operator, and the operator follows the real recurrence."""

from dataclasses import replace

import numpy as np
import pytest

from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.integer.lstm import GATES, QLstm
from npuc.ops.integer.rescale import quantize_multiplier
from npuc.passes import run_passes
from npuc.passes.expand_lstm import expand_lstm

UNITS, WIDTH = 5, 7
X, HIDDEN, WEIGHT = QuantParams(1 / 64, -3), QuantParams(1 / 128, 4), 1 / 100
CELL_BITS = 4


def lstm(cell_clip: int = 0) -> QLstm:
    gate, cell = 2.0**-15, 2.0 ** (CELL_BITS - 15)
    own, fed = (quantize_multiplier(quant.scale * WEIGHT * 4096) for quant in (X, HIDDEN))
    return QLstm(X.zero_point, HIDDEN.zero_point, (own,) * 4, (fed,) * 4, quantize_multiplier(gate),
                 quantize_multiplier(gate * gate / cell), quantize_multiplier(gate * gate / HIDDEN.scale), CELL_BITS,
                 cell_clip)  # fmt: skip


def network(op: QLstm, steps: int, rng: np.random.Generator) -> Graph:
    constants: dict[str, Array] = {
        "w": rng.integers(-127, 128, (GATES * UNITS, WIDTH)).astype(np.int8),
        "r": rng.integers(-127, 128, (GATES * UNITS, UNITS)).astype(np.int8),
        "b": rng.integers(-3000, 3000, GATES * UNITS).astype(np.int32),
    }
    values = {"x": TensorType("int8", (1, steps, WIDTH), X), "y": TensorType("int8", (1, steps, UNITS), HIDDEN),
              "w": TensorType("int8", (GATES * UNITS, WIDTH)), "r": TensorType("int8", (GATES * UNITS, UNITS)),
              "b": TensorType("int32", (GATES * UNITS,))}  # fmt: skip
    return verify(Graph("lstm", (Node("lstm", op, ("x", "w", "r", "b"), ("y",)),), values, constants, ("x",), ("y",)))


@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("cell_clip", [0, 2000])
def test_unrolling_keeps_every_byte(steps: int, cell_clip: int, rng: np.random.Generator) -> None:
    graph = network(lstm(cell_clip), steps, rng)
    unrolled = run_passes(graph, [expand_lstm])
    assert not any(isinstance(node.op, QLstm) for node in unrolled.nodes)
    x = rng.integers(-128, 128, (1, steps, WIDTH)).astype(np.int8)
    assert np.array_equal(evaluate(graph, {"x": x})["y"], evaluate(unrolled, {"x": x})["y"])


def test_several_sequences_stay_one_operator(rng: np.random.Generator) -> None:
    graph = network(lstm(), 3, rng)
    values = {name: replace(kind, shape=(2, *kind.shape[1:])) if name in "xy" else kind
              for name, kind in graph.values.items()}  # fmt: skip
    assert run_passes(replace(graph, values=values), [expand_lstm]).nodes == graph.nodes


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_the_operator_follows_the_real_recurrence(rng: np.random.Generator) -> None:
    graph = network(lstm(), 8, rng)
    x = rng.integers(-128, 128, (1, 8, WIDTH)).astype(np.int8)
    weights, recurrent = graph.constants["w"] * WEIGHT, graph.constants["r"] * WEIGHT
    bias = graph.constants["b"] * WEIGHT * X.scale
    hidden, cell = np.zeros(UNITS), np.zeros(UNITS)
    for step, got in enumerate(evaluate(graph, {"x": x})["y"][0]):
        real = (x[0, step] - X.zero_point) * X.scale
        enter, forget, candidate, leave = np.split(weights @ real + recurrent @ hidden + bias, GATES)
        cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
        hidden = sigmoid(leave) * np.tanh(cell)
        assert np.abs((got - HIDDEN.zero_point) * HIDDEN.scale - np.clip(hidden, -1.03, 0.96)).max() < 0.05
