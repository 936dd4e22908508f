"""Values of the user's model get their names back."""

from __future__ import annotations

from npuc.graph.rewrite import DERIVED, Rewriter
from npuc.passes.rule import graph_pass


@graph_pass
def restore_names(graph: Rewriter) -> None:
    """Names carry no meaning: the last value derived from one that is gone takes its name, which tables refer to."""
    taken = {*graph.graph.sources, *graph.graph.results, *graph.constants}
    nodes = graph.nodes()
    taken |= {name for node in nodes for name in node.outputs}
    for node in reversed(nodes):
        for value in node.outputs:
            name = value.partition(DERIVED)[0]
            if name and name not in taken and not graph.is_output(value):
                graph.rename(value, name)
                taken.add(name)
