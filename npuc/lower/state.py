"""States: behind the last node, what the next call reads is copied to where it reads it."""

from __future__ import annotations

from dataclasses import replace

from isa.target import Target
from npuc.errors import DoesNotFit
from npuc.graph.graph import Graph, Node
from npuc.layout.trans_data import TransData
from npuc.lower.kernel import Kernel
from npuc.lower.move import lower_trans_data


def store_states(graph: Graph, target: Target) -> list[Kernel]:
    """A vec.copy for each state; all of them follow every read of the old states."""
    kept = {state.input for state in graph.states}
    kernels = []
    for state in graph.states:
        layout = graph.values[state.output].layout
        if layout is not None and layout.storage in kept:
            if state.input != state.output:
                raise DoesNotFit(f"state {state.input} takes bytes over from state {layout.storage}", stage="lower",
                                 hint="compute the new state instead of passing on an old one")  # fmt: skip
            continue
        node = Node(f"{state.input}.store", TransData(), (state.output,), (state.input,))
        # Not spatial: stripes would overwrite rows of the old state before others have read them.
        kernels += [replace(kernel, spatial=False) for kernel in lower_trans_data(graph, node, target)]
    return kernels
