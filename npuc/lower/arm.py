"""Nodes on the Arm core: strided views of the placed operands, constants in flash, calls with their cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isa.target import Target
from npuc.arm.cost import arm_cycles
from npuc.arm.kernel_call import RULES
from npuc.arm.kernel_spec import SRAM
from npuc.arm.memory import View
from npuc.arm.node import ArmNode, Constant, Stored
from npuc.errors import InvalidGraph
from npuc.graph.graph import Graph, Node
from npuc.lower.kernel import ARM_CALL, Kernel
from npuc.lower.operand import Operand
from npuc.ops.integer.conv import QConv


def has_arm_kernel(node: Node) -> bool:
    """Whether a kernel computes the operator."""
    return type(node.op) in RULES


def lower_on_arm(graph: Graph, node: Node, target: Target) -> Kernel:
    """The calls of one node. ValueError: the kernels cannot express its operands; KeyError: it has no kernel."""
    (output,) = node.outputs
    inputs = tuple(_operand(graph, node, name) for name in node.inputs if name)
    plan = ArmNode(node.op, inputs, _stored(graph, output))
    bound = plan.bind(lambda _: 0, 0)
    cycles = tuple(arm_cycles(item.call, target) for item in bound.calls)
    plan = replace(plan, scratch_bytes=bound.scratch_bytes, constants=bound.constants, cycles=cycles)
    if bound.scratch_bytes:
        plan = replace(plan, scratch=f"{node.name}.scratch")
    ofm = Operand(plan.output.storage, 0, (1, len(cycles), 1, 1), 0, 0, 0, 0, 1)
    return Kernel(node.name, ARM_CALL, node.sources, ofm, arm=plan)


def _operand(graph: Graph, node: Node, name: str) -> Stored | Constant:
    item = _stored(graph, name)
    if item.storage not in graph.constants:
        return item
    whole = np.frombuffer(np.ascontiguousarray(graph.constants[item.storage]).tobytes(), np.uint8)
    array = item.view.array(whole, whole)
    return Constant(array, _order(node, name, array.ndim))


def _order(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """The order that the kernels are fastest with: weights oc, kh, kw, ic, for depthwise convolutions kh, kw, c."""
    if isinstance(node.op, QConv) and name == node.inputs[1]:
        return (1, 2, 3, 0) if node.op.is_depthwise else (0, 2, 3, 1)
    return tuple(range(rank))


def _stored(graph: Graph, name: str) -> Stored:
    type_ = graph.values[name]
    layout = type_.layout
    if layout is None or layout.block:
        raise InvalidGraph(f"value {name} has no layout of single elements: {type_}", stage="lower")
    view = View(SRAM, layout.offset_bytes, type_.dtype, type_.shape, layout.strides)
    return Stored(layout.storage, view)
