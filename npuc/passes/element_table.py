"""Element-wise operators that depend on one 8-bit operand alone, as tables of their 256 results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Rewriter
from npuc.graph.types import Array
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul

BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class ElementTable:
    """A node's one operand and its result for each value of it: entries [256], from the smallest value upwards."""

    source: str
    entries: Array

    @property
    def lookup(self) -> Lookup:
        """The operator that does the same."""
        return Lookup(tuple(self.entries.tolist()), "uint8" if self.entries.dtype == np.uint8 else "int8")


def element_table(graph: Rewriter, node: Node) -> ElementTable | None:
    """The table of a Lookup, of a rescaled sum or product with a constant that has one value, or of x with itself.

    None when the node is nothing of that kind, or its result has another shape than its operand.
    """
    source = _only_operand(graph, node)
    if source is None or graph.type_of(source).dtype not in BYTES or graph.type_of(node.outputs[0]).dtype not in BYTES:
        return None
    if graph.type_of(source).shape != graph.type_of(node.outputs[0]).shape:
        return None
    values = np.arange(256).astype(np.uint8)
    if graph.type_of(source).dtype == "int8":
        values = (np.arange(256) - 128).astype(np.int8)
    line = values.reshape(1, 1, 1, 256)
    operands = [line if name == source else _only_value(graph, name) for name in node.inputs]
    return ElementTable(source, node.op.reference(*operands)[0].reshape(256))


def byte_values(graph: Rewriter, name: str) -> Array:
    """Values that an int8 tensor can hold, rising: those of the table that computes it, otherwise all 256."""
    producer = graph.producer(name)
    while producer is not None and producer.op.view:
        producer = graph.producer(producer.inputs[0])
    found = element_table(graph, producer) if producer is not None else None
    return np.unique(found.entries) if found is not None else (np.arange(256) - 128).astype(np.int8)


def _only_operand(graph: Rewriter, node: Node) -> str | None:
    if not isinstance(node.op, Lookup | QAdd | QMul):
        return None
    varying = [name for name in dict.fromkeys(node.inputs) if graph.constant(name) is None]
    constants = [array for name in node.inputs if (array := graph.constant(name)) is not None]
    is_unary = len(varying) == 1 and all(np.all(array == array.flat[0]) for array in constants)
    return varying[0] if is_unary else None


def _only_value(graph: Rewriter, name: str) -> Array:
    return graph.constants[name].reshape(-1)[:1].reshape(1, 1, 1, 1)
