"""Chains of reshapes and transposes in their shortest form: inverse pairs cancel, reshapes merge."""

from __future__ import annotations

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose
from npuc.passes.axis_algebra import canonical, follow
from npuc.passes.rule import rewrite

MAX_CHAIN = 16


@rewrite(Reshape, Transpose)
def merge_views(graph: Rewriter, node: Node) -> list[Node] | str | Miss:
    """A chain of reshapes and transposes is one reshape, one transpose and one reshape, each possibly absent."""
    chain = view_chain(graph, node)
    for start in range(len(chain)):
        better = shorter_form(graph, chain[start:])
        if better is None:
            continue
        value = chain[start].inputs[0]
        if not better:
            return value
        return build(graph, node, better, value)
    return Miss("the chain is as short as it can be")


def view_chain(graph: Rewriter, node: Node) -> list[Node]:
    """The reshapes and transposes that end in `node`, first to last."""
    chain = [node]
    while len(chain) < MAX_CHAIN:
        producer = graph.producer(chain[0].inputs[0])
        if producer is None or not isinstance(producer.op, Reshape | Transpose):
            break
        chain.insert(0, producer)
    return chain


def shorter_form(graph: Rewriter, chain: list[Node]) -> list[Op] | None:
    """Operators that do the same for less, counting only what would disappear; None when there are none."""
    shape, result = graph.type_of(chain[0].inputs[0]).shape, graph.type_of(chain[-1].outputs[0]).shape
    axes = follow((node.op for node in chain), shape)
    if axes is None:
        return None
    dying = [chain[-1]]
    for node in reversed(chain[:-1]):
        if not graph.is_private(node.outputs[0]):
            break
        dying.append(node)
    better = canonical(axes, shape, result)
    return better if cost(better) < cost([node.op for node in dying]) else None


def cost(ops: list[Op]) -> int:
    """Transposes move every element, reshapes seldom do."""
    return sum(100 if isinstance(op, Transpose) else 1 for op in ops)


def build(graph: Rewriter, node: Node, ops: list[Op], value: str) -> list[Node]:
    """Nodes that apply `ops` to `value`, the last one with `node`'s output."""
    nodes: list[Node] = []
    for i, op in enumerate(ops):
        nodes.append(graph.new_node(op, (value,), node, node.outputs[0] if i == len(ops) - 1 else ""))
        value = nodes[-1].outputs[0]
    return nodes
