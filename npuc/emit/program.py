"""The program: the stream, the input/output table and the metadata become a container; the debug map names the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isa.arm_calls import encode_arm_calls
from isa.container import Container, IoEntry, write_container
from isa.descriptors import Memory, address
from isa.state import StateEntry, encode_states
from isa.target import Target
from isa.target_file import target_to_dict
from npuc.emit.arm import EmittedCall
from npuc.emit.stream import Stream, placed
from npuc.errors import InvalidGraph
from npuc.graph.graph import Graph, State
from npuc.graph.types import ITEM_BYTES, Host, QuantParams, TensorType
from npuc.task.task import Load, Plan, Task

MAP_SCHEMA = "npuc.map/1"

UNQUANTIZED = QuantParams(0.0, 0)
"""Of integers that stand for themselves."""


def write_program(
    graph: Graph,
    plan: Plan,
    stream: Stream,
    calls: Sequence[EmittedCall],
    target: Target,
    metadata: dict[str, Any],
    reference: bytes,
) -> bytes:
    """Bytes of the `.npu` file."""
    entries = [_io_entry(graph, plan, name, "in") for name in graph.inputs]
    entries += [_io_entry(graph, plan, name, "out") for name in graph.outputs]
    tables = target_to_dict(target)
    return write_container(Container(
        target_name=target.name, fingerprint=target.fingerprint, constants=stream.constants,
        descriptors=bytes(stream.descriptors), instructions=bytes(stream.code), io=tuple(entries),
        metadata={**tables, **metadata}, reference=reference,
        arm_calls=encode_arm_calls([call.record for call in calls]),
        state=encode_states([_state_entry(graph, plan, state) for state in graph.states]),
    ))  # fmt: skip


def _io_entry(graph: Graph, plan: Plan, name: str, direction: str) -> IoEntry:
    type_ = graph.values[name]
    host, quant = graph.host.get(name, Host(type_.dtype)), type_.quant or UNQUANTIZED
    if type_.layout is None or (quant is UNQUANTIZED and host.dtype != type_.dtype):
        raise InvalidGraph(f"{direction}put {name} is not quantized or not placed: {type_}", stage="emit")
    start = address(Memory.SRAM, placed(plan.buffer[type_.layout.storage]) + type_.layout.offset_bytes)
    return IoEntry(
        name,
        direction,
        type_.dtype,
        type_.shape,
        start,
        quant.scale,
        quant.zero_point,
        host.dtype,
        host.half_even,
        type_.n_bytes,
    )


def _state_entry(graph: Graph, plan: Plan, state: State) -> StateEntry:
    initial = np.array(state.initial, graph.values[state.input].dtype)
    start = address(Memory.SRAM, placed(plan.buffer[state.input]))
    return StateEntry(start, initial.astype(initial.dtype.newbyteorder("<")).tobytes())


def debug_map(graph: Graph, plan: Plan, stream: Stream, calls: Sequence[EmittedCall]) -> dict[str, Any]:
    """Instruction or call -> task -> layer -> source nodes, and tensor -> address, layout, quantization."""
    nodes = {node.name: node for node in graph.nodes}
    rows = []
    for index, task_index in enumerate(stream.origin):
        task = plan.tasks[task_index] if plan.tasks else None
        layer = layer_of(plan, task) if task is not None else ""
        sources = plan.kernels[layer].sources if layer else ()
        rows.append({"index": index, "task": task_index, "layer": layer, "sources": list(sources)})
    tensors = []
    for name, type_ in graph.values.items():
        layout = type_.layout
        if layout is None or layout.storage not in plan.buffer:
            continue
        buffer = plan.buffer[layout.storage]
        base = placed(buffer) + layout.offset_bytes
        row: dict[str, Any] = {
            "name": name,
            "address": base,
            "shape": list(type_.shape),
            "dtype": type_.dtype,
            "strides": _window_strides(type_, buffer.window) if buffer.window else list(layout.strides),
            "block": 0 if buffer.window else layout.block,
            "ring_rows": buffer.ring_rows,
            "window": buffer.window,
        }
        if type_.quant is not None:
            row |= {"scale": type_.quant.scale, "zero_point": type_.quant.zero_point}
        tensors.append(row)
    buffers = [{"name": b.name, "kind": b.kind, "address": placed(b), "bytes": b.n_bytes} for b in plan.buffers]
    kernels = [
        {
            "layer": k.node,
            "op": nodes[k.node].op.kind if k.node in nodes else k.mnemonic,
            "unit": k.mnemonic,
            "sources": list(k.sources),
            "macs": k.macs,
        }
        for k in plan.kernels.values()
    ]
    return {
        "schema": MAP_SCHEMA, "instructions": rows, "calls": _call_rows(plan, calls), "layers": kernels,
        "tensors": tensors, "buffers": buffers,
    }  # fmt: skip


def _window_strides(type_: TensorType, channels: int) -> list[int]:
    """Byte strides of an image in a channel window."""
    item = ITEM_BYTES[type_.dtype]
    return [0, item, channels * item * type_.shape[-1], channels * item]


def _call_rows(plan: Plan, calls: Sequence[EmittedCall]) -> list[dict[str, Any]]:
    rows = []
    for index, call in enumerate(calls):
        layer = layer_of(plan, plan.tasks[call.task])
        row = {"index": index, "task": call.task, "layer": layer, "sources": list(plan.kernels[layer].sources)}
        rows.append({**row, "kernel": call.kernel, "cycles": call.record.cycles})
    return rows


def layer_of(plan: Plan, task: Task) -> str:
    """Kernel that a task works for; a load works for the first kernel that its buffer serves."""
    return plan.buffer[task.buffer].parts[0].kernel if isinstance(task, Load) else task.kernel
