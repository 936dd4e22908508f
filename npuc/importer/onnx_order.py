"""Nodes of an ONNX graph in topological order, or the reason why there is none."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator

import onnx

from npuc.errors import ImportFailure


def label(node: onnx.NodeProto, index: int) -> str:
    """Name of a node for messages and sources; unnamed nodes are counted."""
    return node.name or f"{node.op_type}_{index}"


def ordered_nodes(graph: onnx.GraphProto, outer: Collection[str] = ()) -> list[tuple[str, onnx.NodeProto]]:
    """(label, node) in topological order, close to the order of the file.

    `outer` are values that an enclosing graph defines. Raises ImportFailure for a value that is defined twice or
    never, and for a cycle.
    """
    definers = find_definers(graph)
    readers: dict[int, list[int]] = {}
    missing: list[int] = []
    for index, node in enumerate(graph.node):
        sources = set()
        for name in reads(node):
            if name in definers:
                sources.add(definers[name])
            elif name not in outer:
                raise ImportFailure(f"value {name!r} is never defined", node=label(node, index))
        sources.discard(-1)
        missing.append(len(sources))
        for source in sources:
            readers.setdefault(source, []).append(index)
    for value in graph.output:
        if value.name not in definers and value.name not in outer:
            raise ImportFailure(f"output {value.name!r} is never defined")
    return sort(graph, readers, missing)


def sort(graph: onnx.GraphProto, readers: dict[int, list[int]], missing: list[int]) -> list[tuple[str, onnx.NodeProto]]:
    """Kahn's algorithm; among the nodes that are ready the first of the file comes first."""
    ready = [index for index, count in enumerate(missing) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append((label(graph.node[index], index), graph.node[index]))
        for reader in readers.get(index, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    stuck = [label(node, index) for index, node in enumerate(graph.node) if missing[index]]
    if stuck:
        names = ", ".join(stuck[:4]) + (" ..." if len(stuck) > 4 else "")
        raise ImportFailure(f"{len(stuck)} nodes depend on a cycle: {names}", node=stuck[0])
    return order


def find_definers(graph: onnx.GraphProto) -> dict[str, int]:
    """Index of the node that defines each value, -1 for inputs and initializers."""
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    definers = dict.fromkeys(given, -1)
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in definers:
                raise ImportFailure(f"value {name!r} is defined twice", node=label(node, index))
            definers[name] = index
    return definers


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Values that a node needs, with those that its subgraphs take from outside."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            yield from captured(body)


def captured(body: onnx.GraphProto) -> set[str]:
    """Values that a subgraph takes from the graphs around it."""
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {name for node in body.node for name in node.output}
    wanted = {name for node in body.node for name in reads(node)} | {value.name for value in body.output}
    return wanted - own - {""}
