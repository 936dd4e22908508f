"""What repeats along an axis is computed once, and broadcast where it is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.passes.rule import rewrite

Axes = frozenset[int]


@rewrite(QAdd, QMul)
def narrow_broadcast(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """f(repeat(a), b) = f(a, b): an operand that is the same all along an axis of b needs one element of it.

    Sums, products and tables of such operands are computed on one element too.
    """
    for position, name in enumerate(node.inputs):
        if name == node.inputs[1 - position]:
            continue
        other = graph.type_of(node.inputs[1 - position]).shape
        size = graph.type_of(node.outputs[0]).shape
        axes = frozenset(axis for axis in repeated_axes(graph, name) if other[axis] == size[axis])
        if axes:
            made: list[Node] = []
            narrow = _narrowed(graph, name, axes, made)
            inputs = [narrow if i == position else item for i, item in enumerate(node.inputs)]
            return [*made, graph.new_node(node.op, inputs, node, node.outputs[0])]
    return Miss("no operand repeats along an axis of the other")


def repeated_axes(graph: Rewriter, name: str) -> Axes:
    """Axes of more than one element along which a value that only one node reads is known to be the same."""
    shape = graph.type_of(name).shape
    array = graph.constant(name)
    if array is not None:
        return frozenset(i for i, size in enumerate(shape) if size > 1 and np.all(array == array.take([0], axis=i)))
    producer = graph.producer(name)
    if producer is None or not isinstance(producer.op, QAdd | QMul | Lookup) or not graph.is_private(name):
        return frozenset()
    operands = [(graph.type_of(item).shape, repeated_axes(graph, item)) for item in dict.fromkeys(producer.inputs)]
    return frozenset(
        i for i, size in enumerate(shape) if size > 1 and all(own[i] == 1 or i in axes for own, axes in operands)
    )


def _narrowed(graph: Rewriter, name: str, axes: Axes, made: list[Node]) -> str:
    """A value with one element along `axes`; nodes that compute it are added to `made`."""
    shape = graph.type_of(name).shape
    if all(shape[axis] == 1 for axis in axes):
        return name
    quant = graph.type_of(name).quant
    array = graph.constant(name)
    if array is not None:
        part = array[tuple(slice(0, 1) if i in axes else slice(None) for i in range(len(shape)))]
        narrow = graph.add_constant(np.ascontiguousarray(part), derived(name, "narrow"))
    else:
        producer = graph.producer(name)
        if producer is None:
            raise ValueError(f"{name} is computed by nothing")
        done = {item: _narrowed(graph, item, axes, made) for item in dict.fromkeys(producer.inputs)}
        inputs = [done[item] for item in producer.inputs]
        node = graph.new_node(producer.op, inputs, producer, graph.unique(derived(name, "narrow")))
        made.append(node)
        narrow = node.outputs[0]
    graph.values[narrow] = replace(graph.type_of(narrow), quant=quant)
    return narrow
