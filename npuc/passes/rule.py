"""How passes are made: a rule on single nodes, or an edit of the whole graph.

A rule is a function `(graph: Rewriter, node: Node) -> Node | list[Node] | str | Miss`. It returns what stands in for
`node`: nodes that define the same outputs, or the name of a value that is equal to its one output. What nothing reads
any more is removed. `@rewrite(Conv)` makes a pass of a rule that looks at every Conv until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from npuc.errors import InvalidGraph
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.op import Op

Rewritten = Node | list[Node] | str | Miss
Rule = Callable[[Rewriter, Node], Rewritten]
Misses = dict[str, Miss]
"""Why a rule did not apply, by node name; nodes at which it did are not listed."""

OnPass = Callable[[str, Graph, Misses], None]

MAX_SWEEPS = 1000


class Pass(Protocol):
    """A named step from graph to graph; `law` says why the result is equal."""

    @property
    def name(self) -> str:
        """Name for --dump-after."""

    @property
    def law(self) -> str:
        """The equation that the pass relies on."""

    def __call__(self, graph: Graph, misses: Misses) -> Graph:
        """The rewritten graph; `misses` receives what did not apply."""


@dataclass(frozen=True)
class RulePass:
    """Applies one rule to every node of some kinds, in topological order, until a sweep changes nothing."""

    name: str
    law: str
    kinds: tuple[type[Op], ...]
    rule: Rule

    def __call__(self, graph: Graph, misses: Misses) -> Graph:
        """The rewritten graph."""
        rewriter = Rewriter(graph)
        for _ in range(MAX_SWEEPS):
            misses.clear()
            if not self.sweep(rewriter, misses):
                return rewriter.freeze()
        raise InvalidGraph(f"pass {self.name} does not end", stage=self.name)

    def sweep(self, rewriter: Rewriter, misses: Misses) -> bool:
        """Look at every node once; whether anything changed."""
        changed = False
        for listed in rewriter.nodes():
            node = rewriter.find(listed.name)
            if node is None or not isinstance(node.op, self.kinds):
                continue
            result = self.rule(rewriter, node)
            missed = result if isinstance(result, Miss) else apply(rewriter, node, result)
            if missed is None:
                changed = True
            else:
                misses[node.name] = missed
        return changed


def apply(rewriter: Rewriter, node: Node, result: Node | list[Node] | str) -> Miss | None:
    """Do what a rule returned."""
    if isinstance(result, str):
        return rewriter.forward(node, result)
    rewriter.replace(node, [result] if isinstance(result, Node) else result)
    return None


def rewrite(*kinds: type[Op]) -> Callable[[Rule], RulePass]:
    """Make a pass of a rule; it is named after the function, and its law is the docstring."""

    def make(rule: Rule) -> RulePass:
        return RulePass(rule.__name__, (rule.__doc__ or "").strip(), kinds, rule)

    return make


@dataclass(frozen=True)
class GraphPass:
    """A pass that looks at the graph as a whole."""

    name: str
    law: str
    edit: Callable[[Rewriter], None]

    def __call__(self, graph: Graph, misses: Misses) -> Graph:
        """The rewritten graph; an edit of the whole declines nothing."""
        rewriter = Rewriter(graph)
        self.edit(rewriter)
        return rewriter.freeze()


def graph_pass(edit: Callable[[Rewriter], None]) -> GraphPass:
    """Make a pass of a function that edits the whole graph."""
    return GraphPass(edit.__name__, (edit.__doc__ or "").strip(), edit)


def run_passes(graph: Graph, passes: Iterable[Pass], on_pass: OnPass | None = None) -> Graph:
    """Run passes in order and verify after each; `on_pass` gets the pass's name, its result and what it declined."""
    for step in passes:
        misses: Misses = {}
        graph = verify(step(graph, misses), step.name)
        if on_pass is not None:
            on_pass(step.name, graph, misses)
    return graph
