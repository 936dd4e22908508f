"""Operators on their own, compiled: the program gives the bytes of the operator's reference."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.graph.graph import Graph, Node, State, evaluate, evaluate_stream, verify
from npuc.graph.types import Array, DType, QuantParams, TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.pool import QAveragePool
from npuc.ops.integer.rescale import Rescale, addition_rescales
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.squash import Squash
from npuc.ops.op import Op
from npuc.ops.window import Window
from npuc.partition import partition
from simulator.machine import Machine
from simulator.program import load

QUANT = QuantParams(0.1, 0)
SAME = Rescale(1 << 30, 30)
INT16 = (-32768, 32767)

Kind = tuple[DType, tuple[int, ...]]
Byte = Literal["int8", "uint8"]


def graph_of(op: Op, *operands: Kind, constants: dict[str, Array] | None = None) -> Graph:
    """One operator on inputs of these types, then constants."""
    constants = constants or {}
    values = {f"x{i}": TensorType(dtype, shape, QUANT) for i, (dtype, shape) in enumerate(operands)}
    inputs = tuple(values)
    values |= {name: TensorType(array.dtype.name, array.shape) for name, array in constants.items()}  # type: ignore[arg-type]
    (kind,) = op.infer(*values.values())
    node = Node("op", op, (*inputs, *constants), ("y",))
    values["y"] = replace(kind, quant=QUANT)
    return verify(Graph("one", (node,), values, constants, inputs, ("y",)))


def machine_of(graph: Graph) -> Machine:
    compiled = compile_model(graph, None, Options(load_target("edge-256"), strip=True))
    return Machine(load(compiled.program), strict=True)


def check(graph: Graph, rng: np.random.Generator) -> None:
    inputs = {}
    for name in graph.inputs:
        kind = graph.values[name]
        limits = np.iinfo(kind.dtype)
        inputs[name] = rng.integers(limits.min, limits.max + 1, kind.shape).astype(kind.dtype)
    assert np.array_equal(machine_of(graph).run(inputs)["y"], evaluate(graph, inputs)["y"])


@pytest.mark.parametrize("size", [(9, 14), (5, 7), (3, 2), (20, 21)])
@pytest.mark.parametrize("convention", [(False, False), (True, False), (False, True)])
def test_bilinear_resizing(size: tuple[int, int], convention: tuple[bool, bool], rng: np.random.Generator) -> None:
    check(graph_of(QResizeBilinear(size, *convention), ("int8", (1, 19, 5, 7))), rng)


@pytest.mark.parametrize("op", [Squash("sigmoid"), Squash("tanh"), Squash("tanh", 5), Squash("tanh", 1)])
def test_squashing_functions(op: Squash, rng: np.random.Generator) -> None:
    check(graph_of(op, ("int16", (1, 37, 2, 1))), rng)


@pytest.mark.parametrize("shape", [(1, 24, 1, 1), (1, 1, 4, 3), (1, 1, 1, 1)])
def test_sums_and_products_repeat_channels_rows_and_pixels(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    whole: Kind = ("int8", (1, 24, 4, 3))
    add = QAdd(20, *addition_rescales(0.1, 0.2, 0.3), 0, 0, 3, (-128, 127))
    for op in (add, replace(add, subtract=True), QMul(Rescale(1 << 30, 36), 0, 0, -5, (-100, 127))):
        check(graph_of(op, whole, ("int8", shape)), rng)
        check(graph_of(op, ("int8", shape), whole), rng)
        constant = rng.integers(-128, 128, shape).astype(np.int8)
        check(graph_of(op, whole, constants={"k": constant}), rng)


def test_int16_sums_saturate_and_products_are_rescaled(rng: np.random.Generator) -> None:
    pair: tuple[Kind, Kind] = ("int16", (1, 21, 1, 1)), ("int16", (1, 21, 1, 1))
    check(graph_of(QAdd(0, SAME, SAME, SAME, 0, 0, 0, INT16, dtype="int16"), *pair), rng)
    check(graph_of(QMul(Rescale(1 << 30, 45), 0, 0, 0, INT16, "int16"), *pair), rng)
    check(graph_of(QMul(Rescale(1 << 30, 53), 0, 0, 4, (-128, 127)), *pair), rng)


def test_convolutions_to_int16_and_with_a_weight_zero_point(rng: np.random.Generator) -> None:
    constants: dict[str, Array] = {
        "w": rng.integers(-128, 128, (10, 6, 3, 3)).astype(np.int8),
        "b": rng.integers(-999, 999, 10).astype(np.int32),
    }
    window = Window((3, 3), pads=(1, 1, 1, 1))
    conv = QConv(window, 1, 0, 0, (1 << 30,) * 10, (38,) * 10, True, (-128, 127), weight_zero_point=-77)
    wide = replace(conv, dtype="int16", clamp=INT16, shifts=(34,) * 10, weight_zero_point=0)
    for op in (conv, wide):
        kinds: tuple[Kind, ...] = ("int8", (1, 6, 5, 4)), ("uint8", (1, 6, 5, 4))
        for kind in kinds:
            check(graph_of(op, kind, constants=constants), rng)


@pytest.mark.parametrize("source", ["int8", "uint8"])
@pytest.mark.parametrize("result", ["int8", "uint8"])
def test_tables_between_types_of_either_sign(source: Byte, result: Byte, rng: np.random.Generator) -> None:
    lowest = 0 if result == "uint8" else -128
    entries = tuple(int(entry) + lowest for entry in rng.permutation(256))
    check(graph_of(Lookup(entries, result), (source, (1, 5, 4, 3))), rng)


def test_averages_that_round_halves_up(rng: np.random.Generator) -> None:
    op = QAveragePool(Window((2, 2), (2, 2)), (-128, 127), halves_up=True)
    check(graph_of(op, ("int8", (1, 18, 6, 8))), rng)


def test_a_state_is_what_the_call_before_computed(rng: np.random.Generator) -> None:
    add = QAdd(20, *addition_rescales(0.1, 0.1, 0.1), 0, 0, 0, (-128, 127))
    graph = graph_of(add, ("int8", (1, 20, 1, 1)), ("int8", (1, 20, 1, 1)))
    graph = verify(replace(graph, inputs=("x0",), states=(State("x1", "y", tuple(range(-10, 10))),)))
    samples = [{"x0": rng.integers(-9, 9, (1, 20, 1, 1)).astype(np.int8)} for _ in range(4)]
    machine = machine_of(graph)
    for sample, expected in zip(samples, evaluate_stream(graph, samples), strict=True):
        assert np.array_equal(machine.run(sample)["y"], expected["y"])
    machine.reset()
    assert np.array_equal(machine.run(samples[0])["y"], evaluate(graph, samples[0])["y"])


def test_a_table_takes_over_the_bytes_of_an_operand_that_nothing_else_reads() -> None:
    add = QAdd(20, *addition_rescales(0.1, 0.1, 0.1), 0, 0, 0, (-128, 127))
    graph = graph_of(add, ("int8", (1, 20, 3, 3)), ("int8", (1, 20, 3, 3)))
    table = Lookup(tuple(range(127, -129, -1)), "int8")
    kind = graph.values["y"]
    graph = verify(
        replace(
            graph,
            nodes=(*graph.nodes, Node("table", table, ("y",), ("z",)), Node("again", table, ("z",), ("w",))),
            values={**graph.values, "z": kind, "w": kind},
            outputs=("w",),
        )
    )
    placed = partition(graph, load_target("u55-like")).graph
    storages = {name: layout.storage for name in ("y", "z") if (layout := placed.values[name].layout) is not None}
    assert storages["y"] == storages["z"]
