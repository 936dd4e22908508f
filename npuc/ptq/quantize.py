"""Quantize a float graph: every activation int8, every operator an integer operator where it has an integer form."""

from __future__ import annotations

from calibration import QuantTable
from npuc.graph.graph import Graph, Node
from npuc.ops.integer.elementwise import Lookup
from npuc.ptq import conv, elementwise, pool, softmax, structure  # noqa: F401 - each enters its rules
from npuc.ptq.emitter import Emitter
from npuc.ptq.floating import stay_float
from npuc.ptq.fusion import Clamp
from npuc.ptq.plan import Step, make_plan
from npuc.ptq.pointwise import expression, function_of, tabulate
from npuc.ptq.rule import RULES
from npuc.ptq.shared_scale import choose_scales


def quantize(graph: Graph, table: QuantTable) -> Graph:
    """The integer graph of a float graph: same inputs and outputs, by name, shape and axis order, as int8.

    Nodes without an integer form stay float32 (npuc/ptq/floating.py). `table` has the ranges of the values that
    `values_to_observe` names. QuantizationError: a value is missing there or its numbers cannot be used.
    """
    plan = make_plan(graph)
    emitter = Emitter(plan, choose_scales(plan, table))
    for node in graph.nodes:
        try:
            _quantize_node(node, emitter)
        except ValueError as error:
            stay_float(plan.steps[node.outputs[0]], emitter, str(error))
    return emitter.finish()


def _quantize_node(node: Node, emitter: Emitter) -> None:
    """Emit what the node stores; most often its own value, nothing when that is part of another operator."""
    plan, output = emitter.plan, node.outputs[0]
    if output in plan.steps and plan.steps[output].result in plan.stored:
        step = plan.steps[output]
        if type(node.op) not in RULES:
            raise ValueError("no integer operator computes it")
        RULES[type(node.op)](node.op, step, emitter)
    elif output in plan.stored and plan.roots[output] != output:
        _emit_table(node, emitter)


def _emit_table(node: Node, emitter: Emitter) -> None:
    """A chain of pointwise operators => one Lookup from the value that it is a function of."""
    graph, value = emitter.plan.graph, node.outputs[0]
    root = emitter.plan.roots[value]
    table = tabulate(function_of(graph, value, root), emitter.quant(root), emitter.quant(value))
    step = Step(node, Clamp(value, nodes=tuple(expression(graph, value, root))))
    emitter.emit(Lookup(table), (root,), value, step)
