"""Quotients of dequantized tensors become products of 8-bit tensors with tables of reciprocals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from isa import arithmetic
from isa.arithmetic import Rescale, quantize_multiplier
from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter
from npuc.graph.types import Array
from npuc.ops.integer.elementwise import Lookup, QMul
from npuc.ops.integer.floating import Dequantize, Quantize, Quotient
from npuc.ops.op import Op
from npuc.ops.structure import Reshape
from npuc.passes.element_table import byte_values
from npuc.passes.rule import rewrite

LOW_FACTOR, HIGH_FACTOR = 127, 255
"""Largest factors: 255 * 127 is within int16."""

LARGEST = LOW_FACTOR * LOW_FACTOR * HIGH_FACTOR
"""Of a product of two low factors and a high one; times 255 it is within int32."""

SLACKS = range(4, 12)
"""The largest reciprocal is LARGEST over one of these: near LARGEST products of three factors are far apart."""

ZERO = -128
"""Zero point of the tables of factors."""

INT16 = (-32768, 32767)

Table = tuple[int, ...]


@dataclass(frozen=True)
class Factors:
    """y = rescale((a u[b]) (v[b] w[b])) + zero_point for all a and b: int8 tables with zero point ZERO, the rescale."""

    u: Table
    v: Table
    w: Table
    result: Rescale
    zero_point: int


@rewrite(Quantize)
def fold_quotient(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """quantize(dequantize(a) / dequantize(b)) = rescale((a u[b]) (v[b] w[b])), tried out for every a and b.

    The product u v w stands for the reciprocal with up to 20 bits; no product exceeds 32 bits. Values of a and b that
    the tables before them never give do not count.
    """
    quotient = graph.producer(node.inputs[0])
    if not isinstance(node.op, Quantize) or quotient is None or not isinstance(quotient.op, Quotient):
        return Miss("it does not quantize a quotient")
    dividend, divisor = (_dequantized(graph, name) for name in quotient.inputs)
    if dividend is None or divisor is None or node.op.dtype != "int8":
        return Miss("operands or result are not int8")
    shape = graph.type_of(node.outputs[0]).shape
    if len(shape) != 4 or any(graph.type_of(side.name).n_elements != prod(shape) for side in (dividend, divisor)):
        return Miss("the operands are broadcast, or have other than four axes")
    a, b = byte_values(graph, dividend.name), byte_values(graph, divisor.name)
    found = find_factors(node.op, dividend.op, divisor.op, a, b)
    return found if isinstance(found, Miss) else _products(graph, node, found, dividend, divisor.name)


def find_factors(quantize: Quantize, dividend: Dequantize, divisor: Dequantize, a: Array, b: Array) -> Factors | Miss:
    """Factors that give the exact quotient for values a [n] and b [m] of the operands, both int8 and rising."""
    steps = a.astype(np.int64) - dividend.zero_point
    with np.errstate(all="ignore"):
        quotients = np.divide(dividend.reference(a)[0][:, None], divisor.reference(b)[0][None, :])
    if steps[0] < 0 or not np.all(quotients >= 0):
        return Miss("an operand may be negative, or both zero")
    wanted = quantize.reference(quotients)[0].astype(np.int64) - quantize.zero_point
    steepest = float((wanted / np.maximum(steps, 1)[:, None]).max()) or 1.0
    limits = -128 - quantize.zero_point, 127 - quantize.zero_point
    for slack in SLACKS:
        result = quantize_multiplier(steepest * slack / LARGEST)
        triples = [_split(low, high) for low, high in _reciprocals(steps, wanted, result, limits)]
        if None not in triples:
            tables = np.zeros((3, 256), np.int64)
            tables[:, b.astype(np.int64) + 128] = np.transpose([triple for triple in triples if triple])
            u, v, w = (tuple((row + ZERO).tolist()) for row in tables)
            return Factors(u, v, w, result, quantize.zero_point)
    return Miss(f"no reciprocal of {b[triples.index(None)]} gives every quotient")


def _reciprocals(steps: Array, wanted: Array, result: Rescale, limits: tuple[int, int]) -> list[tuple[int, int]]:
    """For each divisor the smallest and the largest r with rescale(a r) = wanted [a, b] for all a: steps [a]."""

    def reached(reciprocal: Array) -> Array:
        return np.clip(arithmetic.rescale(steps[:, None] * reciprocal, result.multiplier, result.shift), *limits)

    count = wanted.shape[1]
    low = _smallest(lambda reciprocal: np.all(reached(reciprocal) >= wanted, axis=0), count)
    high = _smallest(lambda reciprocal: np.any(reached(reciprocal) > wanted, axis=0), count) - 1
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _smallest(is_enough: Callable[[Array], Array], count: int) -> Array:
    """For each of `count` searches the smallest number from which on it is enough, LARGEST + 1 when none is."""
    low, high = np.zeros(count, np.int64), np.full(count, LARGEST + 1, np.int64)
    while np.any(low < high):
        middle = np.minimum((low + high) // 2, LARGEST)
        enough = is_enough(middle)
        low, high = np.where((low < high) & ~enough, middle + 1, low), np.where((low < high) & enough, middle, high)
    return low


def _split(low: int, high: int) -> tuple[int, int, int] | None:
    """Factors whose product lies in low..high."""
    if low <= 0:
        return 0, 0, 0
    factor = np.arange(1, LOW_FACTOR + 1)
    pairs = factor[:, None] * factor
    third = -(-low // pairs)
    fits = (third <= HIGH_FACTOR) & (third * pairs <= high)
    if not fits.any():
        return None
    u, v = np.unravel_index(int(fits.argmax()), fits.shape)
    return int(factor[u]), int(factor[v]), int(third[u, v])


@dataclass(frozen=True)
class _Operand:
    name: str
    op: Dequantize


def _dequantized(graph: Rewriter, name: str) -> _Operand | None:
    """The int8 tensor behind a float32 operand."""
    producer = graph.producer(name)
    if producer is None or not isinstance(producer.op, Dequantize):
        return None
    source = producer.inputs[0]
    return _Operand(source, producer.op) if graph.type_of(source).dtype == "int8" else None


def _products(graph: Rewriter, node: Node, found: Factors, dividend: _Operand, divisor: str) -> list[Node]:
    made: list[Node] = []

    def emit(op: Op, *inputs: str, output: str = "") -> str:
        made.append(graph.new_node(op, inputs, node, output))
        return made[-1].outputs[0]

    def shaped(name: str) -> str:
        return name if graph.type_of(name).shape == shape else emit(Reshape(shape), name)

    shape = graph.type_of(node.outputs[0]).shape
    u, v, w = (shaped(emit(Lookup(table), divisor)) for table in (found.u, found.v, found.w))
    one = quantize_multiplier(1.0)
    wide = QMul(one, dividend.op.zero_point, ZERO, 0, INT16, "int16")
    scaled = emit(wide, shaped(dividend.name), u)
    reciprocal = emit(replace(wide, first_zero_point=ZERO), v, w)
    narrow = QMul(found.result, 0, 0, found.zero_point, (-128, 127))
    emit(narrow, scaled, reciprocal, output=node.outputs[0])
    return made
