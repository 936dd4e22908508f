"""In place: an element-wise result on the Arm core takes over the bytes of an operand that nothing reads any more.

Floats are four times as large as what the NPU computes with, and there are seldom more than two of them alive.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import TensorType
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.integer.floating import Quotient, SquareRoot
from npuc.ops.op import Op
from npuc.ops.unary import Unary

ELEMENTWISE: tuple[type[Op], ...] = (Add, Sub, Mul, Div, Quotient, Relu, Clip, Unary, SquareRoot)
"""Operators whose kernels read an element of each operand before they write that of the result."""


def reuse_operands(graph: Graph, on_arm: Set[str]) -> Graph:
    """Results of nodes in `on_arm` in the storage of an operand of the same type and layout, where it ends there."""
    values = dict(graph.values)
    last = _last_uses(graph)
    fixed = set(graph.sources) | set(graph.constants)
    for position, node in enumerate(graph.nodes):
        if node.name not in on_arm or not isinstance(node.op, ELEMENTWISE):
            continue
        own = _storage(values[node.outputs[0]])
        for name in node.inputs:
            held = _storage(values[name])
            if held not in fixed and last[held] <= position and own != held and _is_same(values, node, name):
                for other, type_ in values.items():
                    if type_.layout is not None and type_.layout.storage == own:
                        values[other] = replace(type_, layout=replace(type_.layout, storage=held))
                last[held] = last.pop(own)
                break
    return verify(replace(graph, values=values), "layout")


def _is_same(values: dict[str, TensorType], node: Node, name: str) -> bool:
    """Operand and result are all of their storages, element by element at the same places."""
    before, after = values[name], values[node.outputs[0]]
    if before.layout is None or after.layout is None or (before.dtype, before.shape) != (after.dtype, after.shape):
        return False
    whole = before.n_bytes == values[before.layout.storage].n_bytes and after.layout.storage == node.outputs[0]
    return whole and before.layout == replace(after.layout, storage=before.layout.storage)


def _last_uses(graph: Graph) -> dict[str, int]:
    """Position of the last node that touches each storage; behind all nodes for what is needed there."""
    last: dict[str, int] = {}
    for position, node in enumerate(graph.nodes):
        for name in (*node.inputs, *node.outputs):
            if name:
                last[_storage(graph.values[name])] = position
    return last | {_storage(graph.values[name]): len(graph.nodes) for name in graph.results}


def _storage(type_: TensorType) -> str:
    return type_.layout.storage if type_.layout is not None else ""
