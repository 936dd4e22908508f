"""Legalization: every hardware limit is met before anything is lowered; one rule a function, limits from the target."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from isa.target import Target
from npuc.errors import DoesNotFit
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import TensorType
from npuc.ops.structure import Concat
from npuc.ops.window import Window


def legalize(graph: Graph, target: Target) -> Graph:
    """The same function within the limits of `target`; DoesNotFit lists every limit that cannot be met."""
    graph = drop_idle_strides(split_wide_concats(graph, target.limits.concat_inputs))
    problems = [text for node in graph.nodes for text in _violations(graph, node, target)]
    if problems:
        raise DoesNotFit(
            "; ".join(problems),
            stage="legalize",
            hint=f"see the limits of {target.name} with: npuc targets {target.name}",
        )
    return verify(graph, "legalize")


def drop_idle_strides(graph: Graph) -> Graph:
    """Window with a single output position along an axis => the same window with stride 1 along it."""
    nodes = []
    for node in graph.nodes:
        window = getattr(node.op, "window", None)
        if isinstance(window, Window):
            height, width = graph.values[node.outputs[0]].shape[2:]
            stride = (1 if height == 1 else window.stride[0], 1 if width == 1 else window.stride[1])
            node = replace(node, op=replace(node.op, window=replace(window, stride=stride)))  # type: ignore[call-arg]
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def split_wide_concats(graph: Graph, limit: int) -> Graph:
    """Concat of more than `limit` inputs => a balanced tree of Concats; order and values are kept."""
    values, nodes = dict(graph.values), []
    for node in graph.nodes:
        if isinstance(node.op, Concat) and len(node.inputs) > limit:
            nodes += _concat_tree(node, values, limit)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), values=values)


def _concat_tree(node: Node, values: dict[str, TensorType], limit: int) -> list[Node]:
    made: list[Node] = []
    level = list(node.inputs)
    while len(level) > limit:
        n_groups = -(-len(level) // limit)
        cuts = [len(level) * i // n_groups for i in range(n_groups + 1)]
        above = []
        for start, stop in pairwise(cuts):
            part = tuple(level[start:stop])
            name = f"{node.outputs[0]}.part{len(made)}"
            values[name] = node.op.infer(*(values[item] for item in part))[0]
            made.append(Node(f"{node.name}.part{len(made)}", node.op, part, (name,), node.sources))
            above.append(name)
        level = above
    return [*made, replace(node, inputs=tuple(level))]


def _violations(graph: Graph, node: Node, target: Target) -> list[str]:
    limits, found = target.limits, []
    window = getattr(node.op, "window", None)
    where = " ".join(node.sources) or node.name
    if window is not None:
        for what, got, limit in (
            ("kernel", window.kernel, limits.kernel),
            ("stride", window.stride, limits.stride),
            ("dilation", window.dilation, limits.dilation),
            ("padding", window.pads[:2], limits.pad),
        ):
            if max(got) > limit:
                found.append(f"{where}: {what} {got} exceeds the limit {limit}")
    for name in (*node.inputs, *node.outputs):
        shape = graph.values[name].shape if name else ()
        if window is not None and name not in graph.constants and max(shape, default=0) > limits.dimension:
            found.append(f"{where}: tensor {name} {list(shape)} exceeds the dimension limit {limits.dimension}")
    return found
