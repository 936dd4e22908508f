"""Nodes without an integer form: the float operator itself, between Dequantize and Quantize."""

from __future__ import annotations

import logging

from npuc.ops.integer.floating import Dequantize, Quantize
from npuc.ptq.emitter import Emitter
from npuc.ptq.plan import Step

LOG = logging.getLogger("npuc.ptq")


def stay_float(step: Step, emitter: Emitter, reason: str) -> None:
    """The node and its clamps in float32; values that such nodes pass on to each other are not quantized between them.

    An output of the graph that nothing else reads stays float32.
    """
    LOG.warning("%s: %s; it stays float32", step.node.name, reason)
    graph, result = emitter.plan.graph, step.result
    nodes = (step.node, *step.clamp.nodes)
    is_float = result in graph.outputs and not graph.users[result]
    inputs = tuple(_float_value(name, step, emitter) for name in step.node.inputs if name)
    for node in nodes:
        if node is nodes[-1] and is_float:
            emitter.emit_float(node.op, inputs, result, step)
            return
        inputs = (emitter.emit_temporary(node.op, inputs, result, step),)
    emitter.floats[result] = inputs[0]
    quant = emitter.quant(result)
    emitter.emit(Quantize(quant.scale, quant.zero_point), inputs, result, step)


def _float_value(name: str, step: Step, emitter: Emitter) -> str:
    """A value of the float graph as float32."""
    if emitter.is_constant(name):
        return emitter.constant(emitter.float_constant(name, "operand"), name)
    if name not in emitter.floats:
        quant = emitter.quant(name)
        emitter.floats[name] = emitter.emit_temporary(Dequantize(quant.scale, quant.zero_point), (name,), name, step)
    return emitter.floats[name]
