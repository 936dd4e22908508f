"""Operators that move elements: the same in the integer graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.ops.op import Op
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose
from npuc.ptq.emitter import Emitter
from npuc.ptq.plan import Step
from npuc.ptq.pointwise import encode
from npuc.ptq.rule import rule


@rule(Reshape, Transpose, Slice, ResizeNearest, Concat)
def move(op: Op, step: Step, emitter: Emitter) -> None:
    """All operands have the scale of the result; constants take it on."""
    quant = emitter.quant(step.result)
    names = [
        emitter.quantized_constant(emitter.float_constant(name, "operand"), name, quant)
        if emitter.is_constant(name)
        else name
        for name in step.node.inputs
    ]
    emitter.emit(op, tuple(names), step.result, step)


@rule(Pad)
def pad(op: Pad, step: Step, emitter: Emitter) -> None:
    """The pad value becomes a code."""
    code = int(encode(np.asarray(op.value), emitter.quant(step.result)))
    emitter.emit(replace(op, value=code), step.node.inputs, step.result, step)
