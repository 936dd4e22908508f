"""Nodes that the NPU cannot run become calls of the Arm core, judged by running what the program holds."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from isa.arithmetic import quantize_multiplier
from isa.arm_calls import ArmCall, decode_arm_calls
from isa.container import read_container
from isa.instructions import Queue
from isa.target_file import load_target
from npuc.compiler import Compiled, Options, compile_model, quantized
from npuc.emit.waits import WaitTracker
from npuc.errors import DoesNotFit, UnsupportedOp
from npuc.firmware.host import host_kernels
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.importer.onnx import import_onnx
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize, Quotient
from npuc.ops.integer.indexing import ArgMax
from npuc.ops.integer.pool import QMaxPool
from npuc.ops.op import Op
from npuc.ops.structure import Concat, Slice
from npuc.ops.window import Window
from npuc.passes import GRAPH_PASSES, run_passes
from npuc.ptq.accuracy import measure
from npuc.ptq.calibrate import calibrate_model
from npuc.verify import verify_program
from simulator.machine import Machine
from simulator.program import load
from tests.onnx_models import node
from tests.ptq.networks import float_graph, samples_for
from tests.shared_data import shared_file

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


def paired(side: int) -> Graph:
    """x -> convolution -> its channels beside those of its mirror image -> pooling -> y."""
    plain = between_convolutions(reversal((1, CHANNELS, side, side), 3), side=side)
    pool = QMaxPool(Window((3, 3), pads=(1, 1, 1, 1)), FULL)
    kind = replace(plain.values["x"], shape=(1, 2 * CHANNELS, side, side))
    nodes = (*plain.nodes[:2], Node("join", Concat(1), ("v0", "v1"), ("j",)), Node("pool", pool, ("j",), ("y",)))
    return verify(replace(plain, nodes=nodes, values={**plain.values, "j": kind, "y": kind}))


def between_convolutions(*operators: Op, side: int = SIDE) -> Graph:
    """x -> convolution -> the operators, one after the other -> convolution -> y."""
    rng = np.random.default_rng(3)
    values = {"x": TensorType("int8", (1, CHANNELS, side, side), SCALE)}
    constants: dict[str, Array] = {}
    for i in (1, 2):
        constants[f"w{i}"] = rng.integers(-127, 128, (CHANNELS, CHANNELS, 3, 3), np.int8)
        constants[f"b{i}"] = rng.integers(-999, 999, CHANNELS, np.int32)
    values |= {name: TensorType(a.dtype.name, a.shape) for name, a in constants.items()}  # type: ignore[arg-type]
    nodes: list[Node] = []
    last = "x"
    for number, op in enumerate((convolution(), *operators, convolution())):
        which = 1 if number == 0 else 2
        inputs = (last, f"w{which}", f"b{which}") if isinstance(op, QConv) else (last,)
        name = "y" if number == len(operators) + 1 else f"v{number}"
        (inferred,) = op.infer(*(values[item] for item in inputs))
        values[name] = replace(inferred, quant=SCALE if inferred.dtype == "int8" else None)
        nodes.append(Node(f"n{number}", op, inputs, (name,), (f"source{number}",)))
        last = name
    return verify(Graph("mixed", tuple(nodes), values, constants, ("x",), ("y",)))


def compiled_for(graph: Graph, **options: object) -> Compiled:
    return compile_model(graph, None, Options(load_target("edge-256"), **options))  # type: ignore[arg-type]


def calls_of(compiled: Compiled) -> tuple[ArmCall, ...]:
    return decode_arm_calls(read_container(compiled.program).arm_calls)


def sample(graph: Graph) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {name: rng.integers(*FULL, graph.values[name].shape, np.int8) for name in graph.inputs}


def check(graph: Graph, compiled: Compiled) -> None:
    """Proven free of races, and on the simulator every byte of the reference; kernels stay in their ranges."""
    verdict = verify_program(compiled.program, compiled.debug_map)
    assert verdict.ok, (verdict.races + verdict.findings)[0].message
    inputs = sample(graph)
    outputs = Machine(load(compiled.program), strict=True, kernels=host_kernels()).run(inputs)
    for name, expected in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(outputs[name], expected)


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


def test_a_limit_that_no_rewrite_meets_sends_the_node_to_the_arm_core() -> None:
    pool = QMaxPool(Window((1, 300), pads=(0, 150, 0, 149)), FULL)
    graph = between_convolutions(pool)
    compiled = compiled_for(graph)
    (row,) = compiled.report["arm_nodes"]
    assert (row["op"], row["constraint"], row["value"], row["limit"]) == ("QMaxPool", "kernel", (1, 300), 256)
    assert row["reason"] == "kernel (1, 300), limit 256"
    check(graph, compiled)


def test_floats_between_integers_stay_on_the_arm_core() -> None:
    graph = between_convolutions(Dequantize(0.05, 3), LogSoftmax(), Quantize(0.05, 3))
    compiled = compiled_for(graph)
    assert [row["op"] for row in compiled.report["arm_nodes"]] == ["Dequantize", "LogSoftmax", "Quantize"]
    assert compiled.report["transdata_count"] <= 1
    check(graph, compiled)


def divided(side: int = 8) -> Graph:
    """x / x in floats; the index of the largest in each row behind a constant: outputs float32 and int32."""
    rows = TensorType("int8", (CHANNELS, side, side), SCALE)
    real = TensorType("float32", rows.shape)
    nodes = (
        Node("first", Dequantize(0.05, 3), ("x",), ("a",)),
        Node("second", Dequantize(0.07, -100), ("x",), ("b",)),
        Node("divide", Quotient(), ("a", "b"), ("y",)),
        Node("largest", ArgMax(2), ("x",), ("i",)),
        Node("join", Concat(1), ("c", "i"), ("z",)),
    )
    values = {"x": rows, "a": real, "b": real, "y": real}
    values["c"] = TensorType("int32", (CHANNELS, 1))
    values["i"], values["z"] = (replace(values["c"], shape=(CHANNELS, n)) for n in (side, side + 1))
    constants = {"c": np.arange(CHANNELS, dtype=np.int32).reshape(CHANNELS, 1) - (1 << 20)}
    return verify(Graph("divided", nodes, values, constants, ("x",), ("y", "z")))


def test_outputs_keep_their_element_types_and_an_operand_gives_its_bytes_to_the_result() -> None:
    graph = divided()
    compiled = compiled_for(graph)
    entries = {entry.name: entry for entry in read_container(compiled.program).io}
    assert [(entries[name].dtype, entries[name].scale) for name in graph.outputs] == [("float32", 0), ("int32", 0)]
    tensors = {row["name"]: row["address"] for row in compiled.debug_map["tensors"]}
    assert tensors["y"] == tensors["a"] != tensors["b"]
    check(graph, compiled)


def test_fallback_error_lists_every_node_with_constraint_value_and_limit() -> None:
    graph = between_convolutions(Dequantize(0.05, 3), Quantize(0.05, 3), reversal((1, CHANNELS, SIDE, SIDE), 3))
    with pytest.raises(UnsupportedOp) as failure:
        compiled_for(graph, fallback="error")
    assert str(failure.value) == (
        "the NPU of edge-256 does not run 3 nodes: source1 (Dequantize): no instruction computes it; "
        "source2 (Quantize): no instruction computes it; source3 (Slice): slice step -1, limit 1\n  stage: partition\n"
        "  hint: run them on the Arm core with --fallback arm"
    )


@dataclass(frozen=True)
class Novelty(Op):
    """An operator that nobody knows."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return inputs


def test_a_node_without_a_kernel_is_an_error_with_both_reasons() -> None:
    with pytest.raises(UnsupportedOp) as failure:
        compiled_for(between_convolutions(Novelty()))
    reasons = "on the NPU: no instruction computes it; on the Arm core: no kernel"
    assert failure.value.message == f"no unit of edge-256 runs 1 nodes: source1 (Novelty): {reasons}"


def test_a_schedule_keeps_the_calls() -> None:
    graph = between_convolutions(reversal((1, CHANNELS, SIDE, SIDE), 2))
    compiled = compiled_for(graph)
    assert compiled.schedule.splitlines().count('call "n1" 0') == 1
    assert compiled_for(graph, schedule=compiled.schedule).program == compiled.program
    assert compiled_for(graph, lock=compiled.lock).program == compiled.program
    with pytest.raises(DoesNotFit, match=r"n1: its calls are \[\], need 0 to 0 in order"):
        compiled_for(graph, schedule=compiled.schedule.replace('call "n1" 0\n', ""))
    with pytest.raises(DoesNotFit, match=r"n0 runs mac\.conv, not on the Arm core"):
        compiled_for(graph, schedule=compiled.schedule.replace('call "n1" 0', 'call "n0" 0'))


def test_calls_wait_for_instructions_and_instructions_for_calls_but_no_call_for_another() -> None:
    waits = WaitTracker(1024)
    for i, queue in enumerate((Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC)):
        waits.visit(queue, [], [(64 * i, 64 * i + 64)])
    extra, conditions = waits.visit(Queue.ARM, [(0, 256)], [(256, 512)])
    assert extra == [(Queue.DMA_IN, 1)]
    assert conditions == [(Queue.DMA_OUT, 1), (Queue.MAC, 1), (Queue.VEC, 1)]
    assert waits.visit(Queue.ARM, [(256, 512)], [(512, 576)]) == ([], [])
    assert waits.visit(Queue.MAC, [(512, 576)], [(576, 640)]) == ([], [(Queue.ARM, 3)])


def test_a_float_model_with_products_of_activations_runs_mixed() -> None:
    rng = np.random.default_rng(0)
    weights: dict[str, Any] = {
        name: rng.standard_normal((16, 16)).astype(np.float32) / 4 for name in ("wq", "wk", "wv", "wo")
    }
    nodes = [
        *(node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"),
        node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"], name="scores"),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"], name="mix"),
        node("Add", ["o", "x"], ["r"]),
        node("MatMul", ["r", "wo"], ["y"]),
    ]
    graph = float_graph(nodes, {"x": (1, 12, 16)}, **weights)
    samples = samples_for(graph)
    table = calibrate_model(graph, samples)
    compiled = compile_model(graph, table, Options(load_target("edge-256")))
    on_arm = [(row["op"], row["sources"]) for row in compiled.report["arm_nodes"] if row["op"] == "MatMul"]
    assert on_arm == [("MatMul", ["scores"]), ("MatMul", ["mix"])]
    products = 2 * 12 * 12 * 16
    assert compiled.report["npu_mac_share"] == pytest.approx(1 - products / (products + 4 * 12 * 16 * 16))
    integer = quantized(graph, table)
    check(integer, compiled)
    assert measure(graph, integer, samples).sqnr_db > 30


def test_an_operand_in_many_pieces_is_copied() -> None:
    graph = paired(16)
    compiled = compiled_for(graph)
    (call,) = calls_of(compiled)
    assert len(call.ranges) <= 2
    assert compiled.report["transdata_count"] >= 1
    check(graph, compiled)


@pytest.mark.parametrize("name", ["yunet_n_320_320", "fastestdet_352"])
def test_detectors_fit_the_board_and_equal_their_reference(name: str) -> None:
    graph = run_passes(import_onnx(shared_file("models", "onnx", f"{name}.onnx")), GRAPH_PASSES)
    rng = np.random.default_rng(0)
    samples = {value: rng.random((2, *graph.values[value].shape[1:]), np.float32) for value in graph.inputs}
    table = calibrate_model(graph, samples, "minmax")
    compiled = compile_model(graph, table, Options(load_target("edge-256")))
    assert compiled.report["sram"]["peak_bytes"] <= 1 << 19
    check(quantized(graph, table), compiled)
