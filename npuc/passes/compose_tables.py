"""Chains of element-wise operators on one tensor become one table."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.structure import Reshape, Transpose
from npuc.passes.element_table import ElementTable, element_table
from npuc.passes.rule import rewrite


@rewrite(Lookup, QAdd, QMul)
def compose_tables(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """f(view(g(x))) = view((f g)(x)) for f and g of one 8-bit operand, as one table of 256 entries.

    A single sum or product becomes a table only behind a convolution, whose output stage maps through it for nothing.
    """
    outer = element_table(graph, node)
    if outer is None:
        return Miss("it depends on more than one 8-bit operand")
    views, producer = _views_above(graph, outer.source)
    if producer is None or not _has_only_tables(graph, producer.outputs[0], bool(views)):
        return Miss("what computes its operand has other users, or is an input")
    inner = element_table(graph, producer)
    if inner is not None:
        first = int(inner.entries.dtype.type(0)) if inner.entries.dtype.kind == "u" else -128
        both = ElementTable(inner.source, outer.entries[inner.entries.astype(int) - first])
        return _rebuilt(graph, node, both, views)
    is_private = graph.is_private(producer.outputs[0])
    if isinstance(producer.op, QConv) and is_private and not isinstance(node.op, Lookup) and _is_free(producer.op):
        return _rebuilt(graph, node, replace(outer, source=producer.outputs[0]), views)
    return Miss(f"{producer.name} before it is neither a table nor a convolution with a free output stage")


def _has_only_tables(graph: Rewriter, value: str, has_views: bool) -> bool:
    """Whether every user of a value can join the table that computes it, so that this one disappears."""
    if has_views or graph.is_output(value):
        return graph.is_private(value)
    return all(element_table(graph, user) is not None for user in graph.users(value))


def _is_free(op: QConv) -> bool:
    return op.table is None and op.residual is None and op.dtype == "int8"


def _views_above(graph: Rewriter, value: str) -> tuple[list[Node], Node | None]:
    """The private reshapes and transposes that end in a value, first to last, and what computes their input."""
    views: list[Node] = []
    node = graph.producer(value)
    while node is not None and isinstance(node.op, Reshape | Transpose) and graph.is_private(node.outputs[0]):
        views.insert(0, node)
        node = graph.producer(node.inputs[0])
    return views, node


def _rebuilt(graph: Rewriter, node: Node, table: ElementTable, views: list[Node]) -> list[Node]:
    """The table of its source, then the views, the last one with the output of `node`."""
    quant = graph.type_of(node.outputs[0]).quant
    nodes = []
    value = table.source
    ops = [table.lookup, *(view.op for view in views)]
    for i, op in enumerate(ops):
        nodes.append(graph.new_node(op, (value,), node, node.outputs[0] if i == len(views) else ""))
        value = nodes[-1].outputs[0]
        graph.values[value] = replace(graph.type_of(value), quant=quant)
    return nodes
