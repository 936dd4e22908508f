"""Storages of a placed graph: the pieces of SRAM that its values share."""

from __future__ import annotations

from npuc.graph.graph import Graph
from npuc.schedule.memory import Storage


def storages_of(graph: Graph) -> dict[str, Storage]:
    """Every storage that a value of the graph lies in, constants excepted; states live all the time."""
    states = {state.input for state in graph.states}
    inputs = {_storage(graph, name) for name in graph.inputs} | states
    outputs = {_storage(graph, name) for name in graph.outputs} | states
    names = dict.fromkeys(_storage(graph, name) for name in graph.values if name not in graph.constants)
    return {
        name: Storage(name, graph.values[name].n_bytes, name in inputs, name in outputs)
        for name in names
        if name not in graph.constants
    }


def _storage(graph: Graph, value: str) -> str:
    layout = graph.values[value].layout
    return layout.storage if layout is not None else value
