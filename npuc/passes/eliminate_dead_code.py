"""Nodes whose results nothing needs."""

from __future__ import annotations

from npuc.graph.rewrite import Rewriter
from npuc.passes.rule import graph_pass


@graph_pass
def eliminate_dead_code(graph: Rewriter) -> None:
    """A value that no output depends on may be anything; constants that nothing reads go as well."""
    graph.remove_unused()
