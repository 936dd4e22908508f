"""Convolutions, and what is one in disguise: batch normalization that could not be folded."""

from __future__ import annotations

from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.integer.conv import QConv
from npuc.ops.normalize import BatchNorm, batch_norm_affine
from npuc.ops.window import Window
from npuc.ptq.emitter import Emitter
from npuc.ptq.plan import Step
from npuc.ptq.pointwise import function_of, tabulate
from npuc.ptq.rule import clamp_codes, rule
from npuc.ptq.weights import quantize_weights


@rule(Conv)
def quantize_conv(step: Step, emitter: Emitter) -> None:
    """Conv, clamps and a pointwise function after it => one QConv."""
    _, weight, bias = step.node.inputs
    weights = emitter.float_constant(weight, "weight")
    if isinstance(step.node.op, Conv):
        emit_conv(step, emitter, step.node.op, weights, emitter.float_constant(bias, "bias"))


@rule(BatchNorm)
def quantize_batch_norm(step: Step, emitter: Emitter) -> None:
    """x * factor + offset per channel => depthwise 1x1 QConv, whose weights are exact."""
    parameters = [emitter.float_constant(name, "parameter") for name in step.node.inputs[1:]]
    if isinstance(step.node.op, BatchNorm):
        factor, offset = batch_norm_affine(step.node.op.epsilon, *parameters)
        emit_conv(step, emitter, Conv(Window((1, 1)), factor.size), factor.reshape(-1, 1, 1, 1), offset)


def emit_conv(step: Step, emitter: Emitter, op: Conv, weights: Array, bias: Array) -> None:
    """QConv of the step's first input; the table of its output stage computes what depends on the result alone."""
    x = step.node.inputs[0]
    source, target = emitter.quant(x), emitter.quant(step.result)
    quantized = quantize_weights(weights, bias, source, step.node.name)
    factors = quantized.factors(source.scale, target.scale)
    final = emitter.plan.tables.get(step.result, step.result)
    table = None
    if final != step.result:
        table = tabulate(function_of(emitter.plan.graph, final, step.result), target, emitter.quant(final))
    quantized_op = QConv(
        op.window, op.groups, source.zero_point, target.zero_point,
        tuple(factor.multiplier for factor in factors), tuple(factor.shift for factor in factors),
        False, clamp_codes(step.clamp, target), table,
    )  # fmt: skip
    w = emitter.constant(quantized.weights, f"{step.node.inputs[1]}/int8")
    b = emitter.constant(quantized.bias, f"{step.node.name}/bias")
    emitter.emit(quantized_op, (x, w, b), final, step)
