"""What will be int8 in a float graph: which values are stored, and which operators merge into one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from npuc.errors import UnsupportedOp
from npuc.graph.graph import Graph, Node
from npuc.ops.conv import Conv
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
    reads. tables: stored value of a convolution -> the one value computed from it, by the table of its output stage.
    """

    graph: Graph
    steps: Mapping[str, Step]
    roots: Mapping[str, str]
    stored: frozenset[str]
    direct: frozenset[str]
    tables: Mapping[str, str]

    def dependents(self, root: str) -> list[str]:
        """Stored values that a table computes from `root`."""
        return [name for name in self.roots if name != root and self.roots[name] == root and name in self.stored]


def make_plan(graph: Graph) -> Plan:
    """Plan the quantization of a float graph. UnsupportedOp: an input that is not float32."""
    odd = [name for name in graph.inputs if graph.values[name].dtype != "float32"]
    if odd:
        dtype = graph.values[odd[0]].dtype
        raise UnsupportedOp(f"input {odd[0]} is {dtype}, only float32 can be quantized", stage=STAGE)
    steps, roots = _merge(graph)
    stored, direct = _find_stored(graph, list(steps.values()), roots)
    return Plan(graph, steps, roots, stored, direct, _find_tables(steps.values(), roots, stored, direct))


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


def _find_tables(
    steps: Iterable[Step], roots: Mapping[str, str], stored: frozenset[str], direct: frozenset[str]
) -> dict[str, str]:
    derived = [name for name in roots if roots[name] != name and name in stored]
    counts = Counter(roots[name] for name in derived)
    candidates = {step.result for step in steps if isinstance(step.node.op, Conv)} - direct
    return {roots[name]: name for name in derived if roots[name] in candidates and counts[roots[name]] == 1}
