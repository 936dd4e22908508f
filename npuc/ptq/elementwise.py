"""Arithmetic of two tensors."""

from __future__ import annotations

from math import prod

import numpy as np

from isa.arithmetic import ADD_LEFT_SHIFT, quantize_multiplier
from npuc.ops.elementwise import Add, Div, Mul, Sub
from npuc.ops.integer.elementwise import QAdd, QMul
from npuc.ops.integer.rescale import addition_rescales
from npuc.ptq.emitter import Emitter
from npuc.ptq.plan import Step
from npuc.ptq.rule import clamp_codes, rule

Shape = tuple[int, ...]


@rule(Add, Sub)
def quantize_addition(op: Add | Sub, step: Step, emitter: Emitter) -> None:
    """a + b or a - b with TensorFlow Lite Micro's parameters."""
    first, second = operands(step, emitter)
    a, b, y = emitter.quant(first), emitter.quant(second), emitter.quant(step.result)
    addition = QAdd(
        ADD_LEFT_SHIFT, *addition_rescales(a.scale, b.scale, y.scale), a.zero_point, b.zero_point, y.zero_point,
        clamp_codes(step.clamp, y), isinstance(op, Sub),
    )  # fmt: skip
    emitter.emit(addition, (first, second), step.result, step)


@rule(Mul, Div)
def quantize_product(_op: Mul | Div, step: Step, emitter: Emitter) -> None:
    """a * b, or a / b as a * (1 / b) for constant b."""
    first, second = operands(step, emitter)
    a, b, y = emitter.quant(first), emitter.quant(second), emitter.quant(step.result)
    factor = quantize_multiplier(a.scale * b.scale / y.scale)
    product = QMul(factor, a.zero_point, b.zero_point, y.zero_point, clamp_codes(step.clamp, y))
    emitter.emit(product, (first, second), step.result, step)


def operands(step: Step, emitter: Emitter) -> tuple[str, str]:
    """Both operands as int8 values of rank 4; constants are quantized over their own range."""
    shapes = pair_shapes(*(emitter.plan.graph.values[name].shape for name in step.node.inputs))
    first, second = (operand(step, emitter, i, shapes[i]) for i in range(2))
    return first, second


def operand(step: Step, emitter: Emitter, index: int, shape: Shape) -> str:
    """One operand in a shape of rank 4."""
    name = step.node.inputs[index]
    is_divisor = isinstance(step.node.op, Div) and index == 1
    if not emitter.is_constant(name):
        if is_divisor:
            raise ValueError(f"divisor {name} is computed, must be a constant")
        return emitter.reshaped(name, shape, step)
    array = emitter.float_constant(name, "operand").astype(np.float64).reshape(shape)
    if is_divisor and not array.all():
        raise ValueError(f"divisor {name} contains zero")
    return emitter.quantized_constant(1 / array if is_divisor else array, name)


def pair_shapes(first: Shape, second: Shape) -> tuple[Shape, Shape]:
    """Both shapes with rank 4 such that they broadcast as before. ValueError: ranks above 4 that cannot be merged."""
    rank = max(len(first), len(second))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in (first, second))
    while len(a) > 4:
        axis = next((i for i in range(len(a) - 1) if a[i] == b[i] and a[i + 1] == b[i + 1]), None)
        if axis is None:
            raise ValueError(f"operands {list(first)} and {list(second)} broadcast over more than 4 axes")
        a, b = ((*shape[:axis], prod(shape[axis : axis + 2]), *shape[axis + 2 :]) for shape in (a, b))
    return as_rank_4(a), as_rank_4(b)


def as_rank_4(shape: Shape) -> Shape:
    """[c] as [1,c,1,1], [n,c] as [n,c,1,1], [n,c,l] as [n,c,1,l]: rows and columns of one pixel are free in NCHW."""
    if len(shape) < 2:
        shape = (1,) * (2 - len(shape)) + shape
    return (*shape[:2], *(1,) * (4 - len(shape)), *shape[2:])
