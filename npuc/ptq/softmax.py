"""Softmax."""

from __future__ import annotations

from math import prod

from isa.arithmetic import softmax_scale
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.integer.softmax import SOFTMAX_QUANT, QSoftmax
from npuc.ops.normalize import Softmax
from npuc.ops.op import Op
from npuc.ptq.elementwise import as_rank_4
from npuc.ptq.emitter import Emitter
from npuc.ptq.plan import Step
from npuc.ptq.pointwise import tabulate
from npuc.ptq.rule import rule


@rule(Softmax)
def quantize_softmax(op: Softmax, step: Step, emitter: Emitter) -> None:
    """QSoftmax on rank 4, whose scale is 1/256; a table brings it to another scale where a Concat asks for one."""
    x = step.node.inputs[0]
    shape, axis = softmax_shape(emitter.shape(x), op.axis)
    source, target = emitter.quant(x), emitter.quant(step.result)
    inputs = (emitter.reshaped(x, shape, step),)
    last: Op = QSoftmax(*softmax_scale(1.0, source.scale), axis)
    if target != SOFTMAX_QUANT:
        inputs = (emitter.emit_temporary(last, inputs, step.result, step, SOFTMAX_QUANT),)
        last = Lookup(tabulate(lambda value: value, SOFTMAX_QUANT, target))
    emitter.emit(last, inputs, step.result, step)


def softmax_shape(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """A shape of rank 4 with the same rows, and the axis in it."""
    if len(shape) > 4:
        return (prod(shape[:axis]), shape[axis], 1, prod(shape[axis + 1 :])), 1
    full = as_rank_4(shape)
    offsets = {1: (1,), 2: (0, 1), 3: (0, 1, 3), 4: (0, 1, 2, 3)}[len(shape)]
    return full, offsets[axis]
