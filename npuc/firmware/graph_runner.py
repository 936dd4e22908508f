"""A graph as a list of kernel calls, and its execution by any backend: the kernels' `evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from npuc.arm.kernel_call import RULES, KernelCall, kernel_calls
from npuc.arm.memory import Bytes, MemoryMap, View
from npuc.errors import InvalidGraph, UnsupportedOp, UsageError
from npuc.graph.graph import Graph, Node, initial_states, type_of_array
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv

STAGE = "firmware"

Order = Callable[[str], tuple[int, ...]]
"""Axes of a value from the outermost in memory to the innermost."""


class Backend(Protocol):
    """Something that runs kernels: the host, or a core in an emulator."""

    def run(self, calls: Sequence[tuple[int, int, bytes]], sram: Bytes, flash: Bytes) -> int:
        """Run calls (kernel id, version, parameter record) in order, changing `sram`; the number that succeeded."""


@dataclass(frozen=True)
class KernelProgram:
    """A graph as kernel calls. Every value keeps its memory, so all of them can be read after a run."""

    graph: Graph
    calls: tuple[tuple[Node, KernelCall], ...]
    views: Mapping[str, View]
    flash: Bytes
    n_sram_bytes: int


def run_graph(
    graph: Graph, inputs: Mapping[str, Array], backend: Backend, keep: Iterable[str] = ()
) -> dict[str, Array]:
    """The graph outputs, and the values named in `keep`, by kernels: the counterpart of `npuc.graph.graph.evaluate`."""
    return run_program(lower_to_kernels(graph), inputs, backend, keep)


def lower_to_kernels(graph: Graph, order: Order | None = None) -> KernelProgram:
    """Kernel calls and addresses for a graph; values of rank 4 lie channels last unless `order` says otherwise.

    UnsupportedOp: lists every node whose operator has no kernel.
    """
    missing = [f"{node.name}: {node.op.kind} has no kernel" for node in graph.nodes if type(node.op) not in RULES]
    if missing:
        message = "\n  ".join([f"{len(missing)} of {len(graph.nodes)} nodes have no kernel", *missing])
        hint = "give each a kernel and a rule in npuc/arm/kernel_call.py"
        raise UnsupportedOp(message, stage=STAGE, hint=hint)
    order = order or channels_last(graph)
    memory, calls = MemoryMap(), []
    views = {name: memory.constant(array, order(name)) for name, array in graph.constants.items()}
    views |= {name: memory.place(graph.values[name], order(name)) for name in graph.sources}
    for node in graph.nodes:
        (output,) = node.outputs
        views[output] = memory.place(graph.values[output], order(output))
        operands = [views[name] for name in node.inputs if name]
        calls += [(node, call) for call in kernel_calls(node.op, memory, operands, views[output])]
    return KernelProgram(graph, tuple(calls), views, memory.flash, memory.n_sram_bytes)


def channels_last(graph: Graph) -> Order:
    """The order the kernels are fastest with: n, h, w, c; weights oc, kh, kw, ic, and kh, kw, c for depthwise ones."""
    depthwise = {node.inputs[1] for node in graph.nodes if isinstance(node.op, QConv) and node.op.is_depthwise}

    def order(name: str) -> tuple[int, ...]:
        rank = len(graph.values[name].shape)
        if name in depthwise:
            return (1, 2, 3, 0)
        return (0, 2, 3, 1) if rank == 4 else tuple(range(rank))

    return order


def run_program(
    program: KernelProgram, inputs: Mapping[str, Array], backend: Backend, keep: Iterable[str] = ()
) -> dict[str, Array]:
    """Run the calls on these inputs; the graph outputs and the values named in `keep`.

    States that `inputs` does not name have their initial contents.
    UsageError: an input is missing or has another dtype or shape. InvalidGraph: a kernel refused its parameters.
    """
    graph = program.graph
    sram = np.zeros(program.n_sram_bytes, np.uint8)
    inputs = {**initial_states(graph), **inputs}
    for name in graph.sources:
        kind, array = graph.values[name], np.asarray(inputs[name]) if name in inputs else None
        if array is None or (array.dtype.name, array.shape) != (kind.dtype, kind.shape):
            got = "nothing" if array is None else type_of_array(array)
            raise UsageError(f"input {name} is {got}, need {kind}", stage=STAGE, hint="pass the stored integers")
        program.views[name].array(sram, program.flash)[...] = array
    calls = [(call.kernel_id, call.version, call.parameters) for _, call in program.calls]
    n_done = backend.run(calls, sram, program.flash)
    if n_done < len(calls):
        node, call = program.calls[n_done]
        raise InvalidGraph(f"kernel {call.kernel} refused the parameters of {node.op}", node=node.name, stage=STAGE)
    return {name: program.views[name].array(sram, program.flash).copy() for name in (*graph.outputs, *keep)}
