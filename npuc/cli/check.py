"""Bit-exactness: every output of the program on the simulator against the integer graph that it was compiled from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from npuc.errors import UsageError

if TYPE_CHECKING:
    from isa.container import Container
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array


@dataclass(frozen=True)
class Difference:
    """The first element that differs: sample, output, index in it, value of the program, value of the reference."""

    sample: int
    output: str
    index: tuple[int, ...]
    got: int
    expected: int

    def __str__(self) -> str:
        place = f"sample {self.sample}, output {self.output}{list(self.index)}"
        return f"{place}: got {self.got}, expected {self.expected}"

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {**asdict(self), "index": list(self.index)}


def reference_graph(container: Container) -> Graph:
    """The integer graph in the program; UsageError when it was stripped."""
    from npuc.graph.serialize import graph_from_bytes

    if not container.reference:
        raise UsageError("the program has no reference graph to check against", hint="compile it without --strip")
    return graph_from_bytes(container.reference)


class Reference:
    """The integer graph, evaluated call by call; its states pass from call to call as the program's do."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._states: dict[str, Array] = {}

    def reset(self) -> None:
        """Start again from the initial states."""
        self._states = {}

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the next call."""
        from npuc.graph.graph import evaluate

        results = evaluate(self.graph, {**inputs, **self._states}, [state.output for state in self.graph.states])
        self._states = {state.input: results[state.output] for state in self.graph.states}
        return {name: results[name] for name in self.graph.outputs}


def first_difference(
    reference: Reference, sample: int, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Difference | None:
    """Compare the outputs of the next inference with the graph's, both in stored type."""
    graph = reference.graph
    given = {name: (graph.type_of(name).dtype, graph.type_of(name).shape) for name in graph.inputs}
    if given != {name: (array.dtype.name, array.shape) for name, array in inputs.items()}:
        raise UsageError("the reference graph has other inputs than the program", hint="compile the program again")
    expected = reference(inputs)
    for name, got in outputs.items():
        want = expected.get(name)
        if want is None or want.shape != got.shape:
            raise UsageError(f"the reference graph has no output {name} like the program's", hint="compile it again")
        different = got != want
        if different.any():
            index = tuple(int(axis[0]) for axis in different.nonzero())
            return Difference(sample, name, index, int(got[index]), int(want[index]))
    return None
