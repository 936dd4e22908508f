"""An editable view of a graph with a use-def index; passes edit it and freeze the result."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from npuc.graph.graph import Graph, Node, type_of_array
from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op

DERIVED = "%"
"""Separates the name of a value of the user's model from what tells values apart that stand for it."""


def derived(name: str, kind: str) -> str:
    """Name of a value or node that stands for `name`."""
    return f"{name.partition(DERIVED)[0]}{DERIVED}{kind.lower()}"


@dataclass(frozen=True)
class Miss:
    """A rule that does not apply, and why."""

    reason: str


class Rewriter:
    """A graph that can be edited; every edit costs time in proportion to what it touches."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[str, TensorType] = dict(graph.values)
        self.constants: dict[str, Array] = dict(graph.constants)
        self._position: dict[str, tuple[int, ...]] = {node.name: (i,) for i, node in enumerate(graph.nodes)}
        self._nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
        self._producer: dict[str, str] = {name: node.name for node in graph.nodes for name in node.outputs}
        self._users: dict[str, dict[str, None]] = {}
        for node in graph.nodes:
            for name in node.inputs:
                self._users.setdefault(name, {})[node.name] = None
        self._outputs = set(graph.results)

    def nodes(self) -> list[Node]:
        """All nodes in topological order."""
        return [self._nodes[name] for name in sorted(self._nodes, key=self._position.__getitem__)]

    def find(self, name: str) -> Node | None:
        """The node of this name, None when it is gone."""
        return self._nodes.get(name)

    def producer(self, value: str) -> Node | None:
        """Node that defines a value; None for inputs and constants."""
        return self._nodes.get(self._producer.get(value, ""))

    def users(self, value: str) -> list[Node]:
        """Nodes that read a value, each once, in topological order."""
        return sorted((self._nodes[name] for name in self._users.get(value, ())), key=lambda n: self._position[n.name])

    def is_output(self, value: str) -> bool:
        """Whether a value is an output or a new state of the graph."""
        return value in self._outputs

    def is_private(self, value: str) -> bool:
        """Whether one node reads a value and nothing else needs it."""
        return len(self._users.get(value, ())) == 1 and value not in self._outputs

    def type_of(self, value: str) -> TensorType:
        """Type of a value."""
        return self.values[value]

    def constant(self, value: str) -> Array | None:
        """Contents of a constant; None for every other value."""
        return self.constants.get(value)

    def unique(self, name: str) -> str:
        """`name`, or `name` with a number when a value or node has that name."""
        chosen, number = name, 1
        while chosen in self.values or chosen in self._position:
            number += 1
            chosen = f"{name}~{number}"
        return chosen

    def add_constant(self, array: Array, name: str) -> str:
        """A new constant, called `name` if that is free."""
        name = self.unique(name)
        self.constants[name] = array
        self.values[name] = type_of_array(array)
        return name

    def new_node(self, op: Op, inputs: Sequence[str], like: Node, output: str = "") -> Node:
        """A node with one output for a rule to return; `like` gives name and sources, `output` is new unless given."""
        output = output or self.unique(derived(like.outputs[0], op.kind))
        self.values.setdefault(output, op.infer(*(self.values[name] for name in inputs))[0])
        name = like.name if output == like.outputs[0] else self.unique(derived(like.name, op.kind))
        self._position.setdefault(name, self._position[like.name])
        return Node(name, op, tuple(inputs), (output,), like.sources)

    def replace(self, node: Node, nodes: Iterable[Node]) -> None:
        """Put `nodes` in the place of `node`; together they define its outputs."""
        position = self._position[node.name]
        self._unlink(node)
        for i, new in enumerate(nodes):
            self._position[new.name] = (*position, i)
            self._link(new)
        self._sweep(node.inputs)

    def forward(self, node: Node, value: str) -> Miss | None:
        """Let `value` stand for the one output of `node`; an output of the graph keeps its name and type."""
        (old,) = node.outputs
        if self.values[old].quant != self.values[value].quant or self.values[old].shape != self.values[value].shape:
            return Miss(f"{value} has another type")
        if self.is_output(old):
            source = self.producer(value)
            if source is None or self.is_output(value):
                return Miss(f"{value} is an input, a constant or another output, and {old} an output")
            self._unlink(node)
            self._rename(source, value, old)
            return None
        self._unlink(node)
        self.redirect(old, value)
        self._sweep(node.inputs)
        return None

    def freeze(self) -> Graph:
        """The edited graph."""
        nodes = tuple(self.nodes())
        used = {*(name for node in nodes for name in node.inputs), *self.graph.results}
        constants = {name: array for name, array in self.constants.items() if name in used}
        defined = {*self.graph.sources, *constants, *(name for node in nodes for name in node.outputs)}
        values = {name: self.values[name] for name in self.values if name in defined}
        return replace(self.graph, nodes=nodes, values=values, constants=constants)

    def remove_unused(self) -> None:
        """Remove every node whose outputs nothing reads."""
        for node in reversed(self.nodes()):
            self._sweep(node.outputs)

    def rename(self, value: str, name: str) -> None:
        """Give a computed value, which is no output of the graph, another name that is free."""
        source = self.producer(value)
        if source is None or value in self._outputs or name in self._producer or name in self.constants:
            raise ValueError(f"{value} cannot be called {name}")
        self.values[name] = self.values[value]
        self._rename(source, value, name)

    def _link(self, node: Node) -> None:
        self._nodes[node.name] = node
        for name in node.outputs:
            self._producer[name] = node.name
        for name in node.inputs:
            self._users.setdefault(name, {})[node.name] = None

    def _unlink(self, node: Node) -> None:
        del self._nodes[node.name]
        for name in node.outputs:
            if self._producer.get(name) == node.name:
                del self._producer[name]
        for name in dict.fromkeys(node.inputs):
            del self._users[name][node.name]

    def redirect(self, old: str, new: str) -> None:
        """Let every node that reads `old` read the equal value `new`."""
        for user in self.users(old):
            self._unlink(user)
            self._link(replace(user, inputs=tuple(new if name == old else name for name in user.inputs)))

    def _rename(self, source: Node, value: str, name: str) -> None:
        self._unlink(source)
        self._link(replace(source, outputs=tuple(name if output == value else output for output in source.outputs)))
        self.redirect(value, name)

    def _sweep(self, values: Iterable[str]) -> None:
        pending = deque(values)
        while pending:
            node = self.producer(pending.popleft())
            if node is None or any(self._users.get(name) or name in self._outputs for name in node.outputs):
                continue
            self._unlink(node)
            pending.extend(node.inputs)
