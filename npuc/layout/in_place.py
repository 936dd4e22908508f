"""In place: an element-wise result takes over the bytes of an operand that nothing reads any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import replace

from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import TensorType
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.floating import Quotient, SquareRoot
from npuc.ops.op import Op
from npuc.ops.unary import Unary

ELEMENTWISE: tuple[type[Op], ...] = (Add, Sub, Mul, Div, Quotient, Relu, Clip, Unary, SquareRoot)
"""Operators whose kernels on the Arm core read an element of each operand before they write that of the result."""

VECTOR: tuple[type[Op], ...] = (Lookup, QAdd, QMul)
"""Operators whose instructions do so. Only for bytes: the steps of recurrent layers compute with int16, and had better
share their descriptors (npuc/task/origin.py), which takes an address of its own for each operand."""


def reuse_operands(graph: Graph, on_arm: Set[str]) -> Graph:
    """Element-wise results in the storage of an operand of the same type and layout, where it ends there.

    On the NPU nothing else may have read the operand: in stripes, a window reads old rows when new ones are written.
    """
    values = dict(graph.values)
    last = _last_uses(graph)
    fixed = set(graph.sources) | set(graph.constants)
    readers = Counter(
        storage for node in graph.nodes for storage in {_storage(graph.values[name]) for name in node.inputs if name}
    )
    for position, node in enumerate(graph.nodes):
        is_arm = node.name in on_arm
        is_byte = values[node.outputs[0]].dtype in ("int8", "uint8")
        if not isinstance(node.op, ELEMENTWISE if is_arm else VECTOR) or not (is_arm or is_byte):
            continue
        own = _storage(values[node.outputs[0]])
        for name in node.inputs:
            held = _storage(values[name])
            free = held not in fixed and last[held] <= position and (is_arm or readers[held] == 1)
            if free and own != held and _is_same(values, node, name):
                for other, type_ in values.items():
                    if type_.layout is not None and type_.layout.storage == own:
                        values[other] = replace(type_, layout=replace(type_.layout, storage=held))
                last[held] = last.pop(own)
                readers[held] = readers.pop(own, 0)
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
