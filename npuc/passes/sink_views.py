"""Reshapes and transposes move behind elementwise operators, so that these stand right behind their convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.elementwise import Clip, Elementwise, Relu
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.unary import Unary
from npuc.passes.merge_views import merge_views
from npuc.passes.rule import Rewritten, rewrite

UNARY = (Relu, Clip, Unary, Lookup)


@rewrite(*UNARY)
def sink_view_below_unary(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """f(view(x)) = view(f(x)) for every elementwise f."""
    view = graph.producer(node.inputs[0])
    if view is None or not isinstance(view.op, Reshape | Transpose):
        return Miss("its input is no reshape or transpose")
    if not graph.is_private(node.inputs[0]) and not _feeds_only_tables(graph, node.inputs[0]):
        return Miss(f"{node.inputs[0]} has other users")
    return _swapped(graph, node, view, view.inputs)


def _feeds_only_tables(graph: Rewriter, value: str) -> bool:
    return not graph.is_output(value) and all(isinstance(user.op, Lookup) for user in graph.users(value))


def _swapped(graph: Rewriter, node: Node, view: Node, sources: Sequence[str]) -> list[Node]:
    """The operator of `node` on `sources`, then `view`."""
    inner = replace(graph.new_node(node.op, sources, node), name=node.name)
    moved = inner.outputs[0]
    graph.values[moved] = replace(graph.type_of(moved), quant=graph.type_of(node.outputs[0]).quant)
    return [inner, graph.new_node(view.op, inner.outputs, view, node.outputs[0])]


@rewrite(Elementwise, QAdd, QMul)
def sink_view_below_binary(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """f(view(a), view(b)) = view(f(a, b)) when a and b have one shape and the views are the same."""
    views = [graph.producer(name) for name in node.inputs]
    first, second = views
    if first is None or second is None or first.op != second.op or not isinstance(first.op, Reshape | Transpose):
        return Miss("its inputs are not two equal reshapes or transposes")
    if not all(len(graph.users(name)) == 1 and not graph.is_output(name) for name in node.inputs):
        return Miss("a reshaped input has other users")
    sources = (first.inputs[0], second.inputs[0])
    if graph.type_of(sources[0]).shape != graph.type_of(sources[1]).shape:
        return Miss("the inputs have different shapes before they are reshaped")
    if len(graph.type_of(sources[0]).shape) != 4 and not isinstance(node.op, Elementwise):
        return Miss("integer operators have four axes")
    return _swapped(graph, node, first, sources)


@rewrite(Reshape, Transpose, *UNARY, QAdd, QMul)
def sink_views(graph: Rewriter, node: Node) -> Rewritten:
    """Reshapes and transposes move behind element-wise integer operators, and chains of them merge there."""
    if isinstance(node.op, Reshape | Transpose):
        return merge_views.rule(graph, node)
    return (sink_view_below_unary if isinstance(node.op, UNARY) else sink_view_below_binary).rule(graph, node)
