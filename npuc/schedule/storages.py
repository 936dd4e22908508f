"""Storages of a placed graph: the pieces of SRAM that its values share."""

from __future__ import annotations

from collections.abc import Iterable

from npuc.graph.graph import Graph
from npuc.lower.kernel import Kernel
from npuc.schedule.memory import Storage


def storages_of(graph: Graph, kernels: Iterable[Kernel]) -> dict[str, Storage]:
    """Every storage that a value of the graph lies in, constants excepted, and what kernels of the Arm core need while
    they run; states live all the time."""
    states = {state.input for state in graph.states}
    inputs = {_storage(graph, name) for name in graph.inputs} | states
    outputs = {_storage(graph, name) for name in graph.outputs} | states
    names = dict.fromkeys(_storage(graph, name) for name in graph.values if name not in graph.constants)
    found = {
        name: Storage(name, graph.values[name].n_bytes, name in inputs, name in outputs)
        for name in names
        if name not in graph.constants
    }
    nodes = [kernel.arm for kernel in kernels if kernel.arm is not None]
    return found | {node.scratch: Storage(node.scratch, node.scratch_bytes) for node in nodes if node.scratch}


def _storage(graph: Graph, value: str) -> str:
    layout = graph.values[value].layout
    return layout.storage if layout is not None else value
