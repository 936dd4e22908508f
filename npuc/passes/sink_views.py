"""Reshapes and transposes move behind elementwise operators, so that these stand right behind their convolution."""

from __future__ import annotations

from dataclasses import replace

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.elementwise import Clip, Elementwise, Relu
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.unary import Unary
from npuc.passes.rule import rewrite


@rewrite(Relu, Clip, Unary)
def sink_view_below_unary(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """f(view(x)) = view(f(x)) for every elementwise f."""
    view = graph.producer(node.inputs[0])
    if view is None or not isinstance(view.op, Reshape | Transpose):
        return Miss("its input is no reshape or transpose")
    if not graph.is_private(node.inputs[0]):
        return Miss(f"{node.inputs[0]} has other users")
    inner = replace(graph.new_node(node.op, view.inputs, node), name=node.name)
    return [inner, graph.new_node(view.op, inner.outputs, view, node.outputs[0])]


@rewrite(Elementwise)
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
    inner = replace(graph.new_node(node.op, sources, node), name=node.name)
    return [inner, graph.new_node(first.op, inner.outputs, first, node.outputs[0])]
