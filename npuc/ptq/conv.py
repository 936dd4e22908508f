"""Convolutions; dense layers are some of them."""

from __future__ import annotations

from npuc.graph.rewrite import derived
from npuc.ops.conv import Conv
from npuc.ops.integer.conv import QConv
from npuc.ptq.emitter import Emitter
from npuc.ptq.plan import Step
from npuc.ptq.rule import clamp_codes, rule
from npuc.ptq.weights import quantize_weights


@rule(Conv)
def quantize_conv(op: Conv, step: Step, emitter: Emitter) -> None:
    """Conv and the clamps after it => one QConv."""
    x, weight, bias = step.node.inputs
    weights, biases = emitter.float_constant(weight, "weight"), emitter.float_constant(bias, "bias")
    source, target = emitter.quant(x), emitter.quant(step.result)
    quantized = quantize_weights(weights, biases, source, step.node.name)
    factors = quantized.factors(source.scale, target.scale)
    quantized_op = QConv(
        op.window, op.groups, source.zero_point, target.zero_point,
        tuple(factor.multiplier for factor in factors), tuple(factor.shift for factor in factors),
        False, clamp_codes(step.clamp, target),
    )  # fmt: skip
    w = emitter.constant(quantized.weights, derived(weight, "int8"))
    b = emitter.constant(quantized.bias, derived(bias, "int32"))
    emitter.emit(quantized_op, (x, w, b), step.result, step)
