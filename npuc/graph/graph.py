"""The graph: an immutable, always verified list of nodes in topological order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from npuc.errors import InvalidGraph
from npuc.graph.types import Array, Host, TensorType
from npuc.ops.op import Op


@dataclass(frozen=True)
class Node:
    """One use of an operator. `sources` are the names of the user's nodes that it stands for; "" is an absent input."""

    name: str
    op: Op
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class State:
    """A value that outlives a call: the next call reads as `input` what this one computed as `output`.

    `initial` holds the elements that the first call reads, in row-major order.
    """

    input: str
    output: str
    initial: tuple[int, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order, the type of every value, constants, and the names of inputs and outputs.

    `host` has the inputs and outputs that the host sees with another element type than the stored one. The values of
    `states` are neither inputs nor outputs.
    """

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, TensorType]
    constants: Mapping[str, Array] = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    host: Mapping[str, Host] = field(default_factory=dict)
    states: tuple[State, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Inputs and states: the values that are there before the first node."""
        return (*self.inputs, *(state.input for state in self.states))

    @property
    def results(self) -> tuple[str, ...]:
        """Outputs and new states: the values that are needed behind the last node."""
        return (*self.outputs, *(state.output for state in self.states))

    @cached_property
    def producers(self) -> dict[str, Node]:
        """Node that defines each value; graph inputs and constants have none."""
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def users(self) -> dict[str, list[Node]]:
        """Nodes that read each value, in order; a node that reads it twice is listed once."""
        users: dict[str, list[Node]] = {name: [] for name in self.values}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    users[name].append(node)
        return users

    def type_of(self, name: str) -> TensorType:
        """Type of a value."""
        return self.values[name]

    def __str__(self) -> str:
        lines = [f"graph {self.name}"]
        lines += [f"  input {name}: {self.values[name]}" for name in self.inputs]
        lines += [f"  state {state.input}: {self.values[state.input]} <- {state.output}" for state in self.states]
        lines += [f"  const {name}: {self.values[name]}" for name in self.constants]
        for node in self.nodes:
            outputs = ", ".join(f"{name}: {self.values[name]}" for name in node.outputs)
            lines.append(f"  {outputs} = {node.op} ({', '.join(node.inputs)})  # {node.name}")
        return "\n".join([*lines, f"  return {', '.join(self.outputs)}"]) + "\n"


def type_of_array(array: Array) -> TensorType:
    """Type of a constant: its dtype and shape, no quantization."""
    return TensorType(array.dtype.name, tuple(array.shape))  # type: ignore[arg-type]


def verify(graph: Graph, stage: str = "") -> Graph:
    """Return `graph` unchanged, or raise InvalidGraph naming the first node that breaks a rule of the IR."""
    defined = set(graph.sources) | set(graph.constants)
    for name in graph.sources:
        _require(name not in graph.constants, f"input {name} is also a constant", "", stage)
    names: set[str] = set()
    for node in graph.nodes:
        _require(node.name not in names, f"two nodes are called {node.name}", node.name, stage)
        names.add(node.name)
        for value in node.inputs:
            _require(not value or value in defined, f"value {value} is read before it is defined", node.name, stage)
        for value in node.outputs:
            _require(value not in defined, f"value {value} is defined twice", node.name, stage)
            _require(value in graph.values, f"value {value} has no type", node.name, stage)
            defined.add(value)
        _verify_types(graph, node, stage)
    for name in graph.results:
        _require(name in defined, f"output {name} is never defined", "", stage)
    for state in graph.states:
        _verify_state(graph, state, stage)
    for name, array in graph.constants.items():
        declared = graph.values[name]
        same = declared.shape == array.shape and declared.dtype == array.dtype.name
        _require(same, f"constant {name} is {array.dtype.name}{list(array.shape)}, declared {declared}", "", stage)
    return graph


def _verify_types(graph: Graph, node: Node, stage: str) -> None:
    try:
        inferred = node.op.infer(*(graph.values[name] for name in node.inputs if name))
    except ValueError as error:
        raise InvalidGraph(f"{node.op.kind}: {error}", node=node.name, stage=stage) from error
    for name, expected in zip(node.outputs, inferred, strict=True):
        got = graph.values[name]
        same = (got.dtype, got.shape) == (expected.dtype, expected.shape)
        _require(same, f"value {name} is declared {got}, its node gives {expected}", node.name, stage)


def _verify_state(graph: Graph, state: State, stage: str) -> None:
    before, after = graph.values[state.input], graph.values[state.output]
    same = (before.dtype, before.shape) == (after.dtype, after.shape) and before.n_elements == len(state.initial)
    _require(same, f"state {state.input} is {before}, {len(state.initial)} at first, then {after}", "", stage)


def _require(condition: bool, message: str, node: str, stage: str) -> None:
    if not condition:
        raise InvalidGraph(message, node=node, stage=stage)


def evaluate(graph: Graph, inputs: Mapping[str, Array], keep: Iterable[str] = ()) -> dict[str, Array]:
    """Run every node's `reference`; returns the graph outputs and the values named in `keep`.

    States that `inputs` does not name have their initial contents.
    """
    values: dict[str, Array] = {**graph.constants, **initial_states(graph)}
    values |= {name: np.asarray(array) for name, array in inputs.items()}
    last_use = {name: i for i, node in enumerate(graph.nodes) for name in node.inputs}
    wanted = set(graph.results) | set(keep)
    for i, node in enumerate(graph.nodes):
        results = node.op.reference(*(values[name] for name in node.inputs if name))
        values.update(zip(node.outputs, results, strict=True))
        for name in set(node.inputs):
            if name and last_use[name] == i and name not in wanted and name not in graph.constants:
                del values[name]
    return {name: values[name] for name in (*graph.outputs, *keep)}


def initial_states(graph: Graph) -> dict[str, Array]:
    """Contents of the states before the first call."""
    kinds = {state.input: graph.values[state.input] for state in graph.states}
    return {
        state.input: np.array(state.initial, kinds[state.input].dtype).reshape(kinds[state.input].shape)
        for state in graph.states
    }


def evaluate_stream(graph: Graph, samples: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """Outputs of one call after the other; states pass from call to call."""
    states = initial_states(graph)
    for inputs in samples:
        results = evaluate(graph, {**inputs, **states}, [state.output for state in graph.states])
        states = {state.input: results[state.output] for state in graph.states}
        yield {name: results[name] for name in graph.outputs}
