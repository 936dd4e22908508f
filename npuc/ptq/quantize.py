"""Quantize a float graph: every activation int8, every operator an integer operator."""

from __future__ import annotations

from calibration import QuantTable
from npuc.errors import UnsupportedOp
from npuc.graph.graph import Graph, Node
from npuc.ops.integer.elementwise import Lookup
from npuc.ptq import conv, elementwise, pool, softmax, structure  # noqa: F401 - each enters its rules
from npuc.ptq.emitter import Emitter
from npuc.ptq.fusion import Clamp
from npuc.ptq.plan import STAGE, Step, make_plan
from npuc.ptq.pointwise import expression, function_of, tabulate
from npuc.ptq.rule import RULES
from npuc.ptq.shared_scale import choose_scales


def quantize(graph: Graph, table: QuantTable) -> Graph:
    """The integer graph of a float graph: same inputs and outputs, by name, shape and axis order, as int8.

    `table` has the ranges of the values that `values_to_observe` names. QuantizationError: a value is missing there or
    its numbers cannot be used. UnsupportedOp: nodes without an integer form, all of them in one message.
    """
    plan = make_plan(graph)
    emitter = Emitter(plan, choose_scales(plan, table))
    refusals: list[str] = []
    for node in graph.nodes:
        try:
            _quantize_node(node, emitter)
        except ValueError as error:
            refusals.append(f"{node.op.kind} {node.name}: {error}")
            emitter.assume(plan.steps[node.outputs[0]].result)
    if refusals:
        raise UnsupportedOp(
            f"{len(refusals)} nodes have no int8 form: {'; '.join(refusals)}", stage=STAGE, hint="rewrite these nodes"
        )
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
