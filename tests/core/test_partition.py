"""Nodes that the NPU cannot run become calls of the Arm core, judged by running what the program holds."""

from collections.abc import Mapping

import numpy as np
import pytest

from isa.arithmetic import quantize_multiplier
from isa.arm_calls import ArmCall, decode_arm_calls
from isa.container import read_container
from isa.target_file import load_target
from npuc.arm.memory import Bytes
from npuc.compiler import Compiled, Options, compile_model
from npuc.firmware.host import host_kernels
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.op import Op
from npuc.ops.structure import Slice
from npuc.ops.window import Window

SCALE = QuantParams(0.05, 3)
CHANNELS, SIDE = 5, 8
FULL = (-128, 127)


def convolution() -> QConv:
    factor = quantize_multiplier(0.01)
    factors = (factor.multiplier,) * CHANNELS, (factor.shift,) * CHANNELS
    return QConv(Window((3, 3), pads=(1, 1, 1, 1)), 1, 3, 3, *factors, False, FULL)


def reversal(shape: tuple[int, ...], axis: int) -> Slice:
    """Every element along one axis, the last first: the machine has no negative strides."""
    starts = tuple(size - 1 if i == axis else 0 for i, size in enumerate(shape))
    stops = tuple(-1 if i == axis else size for i, size in enumerate(shape))
    return Slice(starts, stops, tuple(-1 if i == axis else 1 for i in range(len(shape))))


def between_convolutions(*operators: Op, outputs: tuple[str, ...] = ("y",)) -> Graph:
    """x -> convolution -> the operators, one after the other -> convolution -> y."""
    rng = np.random.default_rng(3)
    values = {"x": TensorType("int8", (1, CHANNELS, SIDE, SIDE), SCALE)}
    constants: dict[str, Array] = {}
    for i in (1, 2):
        constants[f"w{i}"] = rng.integers(-127, 128, (CHANNELS, CHANNELS, 3, 3), np.int8)
        constants[f"b{i}"] = rng.integers(-999, 999, CHANNELS, np.int32)
    values |= {name: TensorType(a.dtype.name, a.shape) for name, a in constants.items()}  # type: ignore[arg-type]
    nodes, last = [], "x"
    for number, op in enumerate((convolution(), *operators, convolution())):
        which = 1 if number == 0 else 2
        inputs = (last, f"w{which}", f"b{which}") if isinstance(op, QConv) else (last,)
        name = "y" if number == len(operators) + 1 else f"v{number}"
        (inferred,) = op.infer(*(values[item] for item in inputs))
        values[name] = TensorType(inferred.dtype, inferred.shape, SCALE)
        nodes.append(Node(f"n{number}", op, inputs, (name,), (f"source{number}",)))
        last = name
    return verify(Graph("mixed", tuple(nodes), values, constants, ("x",), outputs))


def compiled_for(graph: Graph, **options: object) -> Compiled:
    return compile_model(graph, None, Options(load_target("edge-256"), **options))  # type: ignore[arg-type]


def calls_of(compiled: Compiled) -> tuple[ArmCall, ...]:
    return decode_arm_calls(read_container(compiled.program).arm_calls)


def sample(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {name: rng.integers(*FULL, graph.values[name].shape, np.int8) for name in graph.inputs}


def strided(compiled: Compiled, name: str, sram: Bytes) -> Array:
    """A tensor of the debug map in the arena."""
    (row,) = [row for row in compiled.debug_map["tensors"] if row["name"] == name]
    assert row["block"] == 0
    kind = np.dtype(row["dtype"]).newbyteorder("<")
    return np.ndarray(row["shape"], kind, sram.data, row["address"], row["strides"])


def run_calls(compiled: Compiled, graph: Graph, values: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs of every node on the Arm core, by the kernels of this machine, its inputs as the reference has them."""
    nodes = {node.name: node for node in graph.nodes}
    calls, found = calls_of(compiled), {}
    rows = compiled.debug_map["calls"]
    flash = np.frombuffer(compiled.program, np.uint8)
    for name in dict.fromkeys(row["layer"] for row in rows):
        if name not in nodes:
            continue
        sram = np.random.default_rng(1).integers(0, 256, 1 << 19, np.uint8)
        for operand in nodes[name].inputs:
            if operand and operand not in graph.constants:
                strided(compiled, operand, sram)[...] = values[operand]
        for row in (row for row in rows if row["layer"] == name and row["kernel"]):
            call, before = calls[row["index"]], sram.copy()
            assert host_kernels().run([(call.kernel, call.version, call.parameters)], sram, flash) == 1
            written = np.zeros(len(sram), np.bool_)
            for item in (item for item in call.ranges if item.is_written):
                start = item.address & ((1 << 30) - 1)
                written[start : start + item.n_bytes] = True
            assert not (sram != before)[~written].any()
        (output,) = nodes[name].outputs
        found[output] = strided(compiled, output, sram).copy()
    return found


def check(graph: Graph, compiled: Compiled) -> None:
    inputs = sample(graph)
    keep = [name for node in graph.nodes for name in node.outputs]
    values = {**evaluate(graph, inputs, keep), **inputs}
    for name, array in run_calls(compiled, graph, values).items():
        np.testing.assert_array_equal(array, values[name])


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_node_between_two_convolutions_runs_on_the_arm_core(axis: int) -> None:
    graph = between_convolutions(reversal((1, CHANNELS, SIDE, SIDE), axis))
    compiled = compiled_for(graph)
    (call,) = calls_of(compiled)
    assert call.conditions
    assert call.cycles > 0
    assert [item.is_written for item in call.ranges] == [False, True]
    (row,) = compiled.report["arm_nodes"]
    assert (row["node"], row["constraint"], row["value"], row["limit"]) == ("n1", "slice step", -1, 1)
    assert row["sources"] == ["source1"]
    assert compiled.report["cycles"]["arm"] == call.cycles
    check(graph, compiled)
