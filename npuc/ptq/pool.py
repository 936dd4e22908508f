"""Pooling and means."""

from __future__ import annotations

from isa.arithmetic import quantize_multiplier
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.pool import AveragePool, MaxPool, SpatialMean
from npuc.ptq.emitter import Emitter
from npuc.ptq.fusion import covers_image
from npuc.ptq.plan import Step
from npuc.ptq.rule import clamp_codes, rule

EVERY_CODE = (-128, 127)


@rule(MaxPool)
def quantize_max_pool(op: MaxPool, step: Step, emitter: Emitter) -> None:
    """max commutes with a positive scale."""
    emitter.emit(QMaxPool(op.window, EVERY_CODE), step.node.inputs, step.result, step)


@rule(AveragePool)
def quantize_average_pool(op: AveragePool, step: Step, emitter: Emitter) -> None:
    """The mean of a few codes is a code; over the whole image it has a range of its own."""
    x = step.node.inputs[0]
    if covers_image(op, emitter.plan.graph.values[x]):
        quantize_mean(op, step, emitter)
        return
    pool = QAveragePool(op.window, EVERY_CODE, op.count_include_pad, emitter.quant(x).zero_point)
    emitter.emit(pool, (x,), step.result, step)


@rule(SpatialMean)
def quantize_mean(_op: SpatialMean | AveragePool, step: Step, emitter: Emitter) -> None:
    """Mean over rows and columns, rescaled: means spread less than the elements."""
    x = step.node.inputs[0]
    source, target = emitter.quant(x), emitter.quant(step.result)
    factor = quantize_multiplier(source.scale / target.scale)
    mean = QMean(factor, source.zero_point, target.zero_point, clamp_codes(step.clamp, target))
    emitter.emit(mean, (x,), step.result, step)
