"""Bit-exactness: every output of the program against the integer graph that it was compiled from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuc.errors import UsageError

if TYPE_CHECKING:
    from isa.container import Container
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array


@dataclass(frozen=True)
class Difference:
    """The first element that differs: sample, output, index in it, value of the program, value of the reference.

    `layer` is the node of the reference graph that computes the output.
    """

    sample: int
    output: str
    index: tuple[int, ...]
    got: float
    expected: float
    layer: str = ""

    def __str__(self) -> str:
        layer = f", layer {self.layer}" if self.layer else ""
        place = f"sample {self.sample}{layer}, output {self.output}{list(self.index)}"
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
    """The integer graph, evaluated call by call; its states pass from call to call as the program's do.

    `values` are those of the last call that `keep` names. Nodes on float32 are computed by the C kernels, those of
    `image` if there is one (npuc/cli/float_reference.py).
    """

    def __init__(self, graph: Graph, keep: Iterable[str] = (), image: Path | None = None) -> None:
        from npuc.cli.float_reference import with_float_kernels

        self.graph = with_float_kernels(graph, image)
        self.values: dict[str, Array] = {}
        self._keep = (*keep, *(state.output for state in graph.states))
        self._states: dict[str, Array] = {}

    def reset(self) -> None:
        """Start again from the initial states."""
        self._states = {}

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the next call."""
        from npuc.graph.graph import evaluate

        self._require_inputs(inputs)
        self.values = evaluate(self.graph, {**inputs, **self._states}, self._keep)
        self._states = {state.input: self.values[state.output] for state in self.graph.states}
        return {name: self.values[name] for name in self.graph.outputs}

    def _require_inputs(self, inputs: Mapping[str, Array]) -> None:
        wanted = {name: self.graph.type_of(name) for name in self.graph.inputs}
        given = {name: (array.dtype.name, array.shape) for name, array in inputs.items()}
        if given != {name: (kind.dtype, kind.shape) for name, kind in wanted.items()}:
            raise UsageError("the reference graph has other inputs than the program", hint="compile the program again")


def first_difference(
    reference: Reference, sample: int, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
) -> Difference | None:
    """Compare the outputs of the next inference with the graph's, both in stored type."""
    reference(inputs)
    return compare_outputs(sample, reference, outputs)


def compare_outputs(sample: int, reference: Reference, outputs: Mapping[str, Array]) -> Difference | None:
    """Compare outputs with those of the inference that the reference has run last."""
    for name, got in outputs.items():
        want = reference.values.get(name)
        if want is None or want.shape != got.shape:
            raise UsageError(f"the reference graph has no output {name} like the program's", hint="compile it again")
        producer = reference.graph.producers.get(name)
        difference = compare_value(sample, producer.name if producer else "", name, got, want)
        if difference is not None:
            return difference
    return None


def compare_value(sample: int, layer: str, name: str, got: Array, want: Array) -> Difference | None:
    """The first element of a value that is not the wanted one, arrays of one shape; NaN equals itself."""
    different = (got != want) & ((got == got) | (want == want))
    if not different.any():
        return None
    index = tuple(int(axis[0]) for axis in different.nonzero())
    return Difference(sample, name, index, got[index].item(), want[index].item(), layer)
