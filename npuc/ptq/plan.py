"""What will be int8 in a float graph: which values are stored, and which operators merge into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npuc.errors import UnsupportedOp
from npuc.graph.graph import Graph, Node
from npuc.ptq.fusion import Clamp, absorb_clamps
from npuc.ptq.pointwise import pointwise_root

STAGE = "quantize"


@dataclass(frozen=True)
class Step:
    """A node that becomes an integer operator, with the clamps that it applies; `clamp.result` is what it stores."""

    node: Node
    clamp: Clamp

    @property
    def result(self) -> str:
        """The float value that the operator stores."""
        return self.clamp.result

    @property
    def sources(self) -> tuple[str, ...]:
        """The user's nodes that it stands for."""
        return tuple(dict.fromkeys(name for node in (self.node, *self.clamp.nodes) for name in node.sources))


@dataclass(frozen=True)
class Plan:
    """Decisions about a float graph, before any number is known.

    steps: by the float value that the node itself computes. roots: the value that each value is a pointwise function
    of, itself if it is of none. stored: the values that exist as int8. direct: those that something else than a table
    reads. dependents: the stored values that tables compute from a stored value.
    """

    graph: Graph
    steps: Mapping[str, Step]
    roots: Mapping[str, str]
    stored: frozenset[str]
    direct: frozenset[str]
    dependents: Mapping[str, Sequence[str]]


def make_plan(graph: Graph) -> Plan:
    """Plan the quantization of a float graph. UnsupportedOp: an input that is not float32."""
    odd = [name for name in graph.inputs if graph.values[name].dtype != "float32"]
    if odd:
        dtype = graph.values[odd[0]].dtype
        raise UnsupportedOp(f"input {odd[0]} is {dtype}, only float32 can be quantized", stage=STAGE)
    steps, roots = _merge(graph)
    stored, direct = _find_stored(graph, list(steps.values()), roots)
    dependents: dict[str, list[str]] = {name: [] for name in stored}
    for name, root in roots.items():
        if name != root and name in stored:
            dependents[root].append(name)
    return Plan(graph, steps, roots, stored, direct, dependents)


def _merge(graph: Graph) -> tuple[dict[str, Step], dict[str, str]]:
    steps: dict[str, Step] = {}
    roots = {name: name for name in graph.inputs}
    absorbed: set[str] = set()
    for node in graph.nodes:
        output = node.outputs[0]
        root = None if output in absorbed else pointwise_root(graph, node, roots)
        roots.update({name: root or name for name in node.outputs})
        if root is None and output not in absorbed:
            clamp = absorb_clamps(graph, node)
            steps[output] = Step(node, clamp)
            absorbed |= {covered.outputs[0] for covered in clamp.nodes}
    return steps, roots


def _find_stored(
    graph: Graph, steps: Sequence[Step], roots: Mapping[str, str]
) -> tuple[frozenset[str], frozenset[str]]:
    direct = {name for name in graph.outputs if name not in graph.constants} | set(graph.inputs)
    stored = direct | {roots[name] for name in direct}
    for step in reversed(steps):
        if step.result in stored:
            read = {name for name in step.node.inputs if name and name not in graph.constants}
            direct |= read
            stored |= read | {roots[name] for name in read}
    return frozenset(stored), frozenset(direct)
