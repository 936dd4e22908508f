"""States: what the next call reads is copied to where it reads it, as soon as nothing reads the old state any more."""

from __future__ import annotations

from npuc.errors import DoesNotFit
from npuc.graph.graph import Graph, Node
from npuc.layout.trans_data import TransData


def store_nodes(graph: Graph) -> list[Node]:
    """A TransData for each state of a placed graph, to be run behind every read of the old state."""
    kept = {state.input for state in graph.states}
    nodes = []
    for state in graph.states:
        layout = graph.values[state.output].layout
        if layout is not None and layout.storage in kept:
            if state.input != state.output:
                raise DoesNotFit(f"state {state.input} takes bytes over from state {layout.storage}", stage="lower",
                                 hint="compute the new state instead of passing on an old one")  # fmt: skip
            continue
        nodes.append(Node(f"{state.input}.store", TransData(), (state.output,), (state.input,)))
    return nodes
