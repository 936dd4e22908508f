"""One operator of a graph as calls of kernels: a rule for each operator, entered in RULES."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.arm.call import KernelCall, Rule, merge_axes, pieces
from npuc.arm.float_rule import FLOAT_RULES
from npuc.arm.index_rule import INDEX_RULES
from npuc.arm.integer_rule import INTEGER_RULES
from npuc.arm.memory import MemoryMap, View
from npuc.arm.move_rule import MOVE_RULES, copy
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.integer.floating import Dequantize, Quantize, Quotient, SquareRoot, ToFloat
from npuc.ops.integer.indexing import IndexArithmetic
from npuc.ops.op import Op
from npuc.ops.unary import Unary

__all__ = ["RULES", "KernelCall", "Rule", "copy", "kernel_calls", "merge_axes"]

RULES: dict[type[Op], Rule] = {**INTEGER_RULES, **INDEX_RULES, **MOVE_RULES, **FLOAT_RULES}

ELEMENTWISE = (Add, Sub, Mul, Div, Quotient, Relu, Clip, Unary, SquareRoot, Quantize, Dequantize, ToFloat, Lookup,
               IndexArithmetic)  # fmt: skip
"""Operators that treat every element alike, whatever the rank: operands that need more axes become several calls."""


def kernel_calls(op: Op, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    """Calls that write `op` of the inputs to the output; KeyError for an operator that has no kernel.

    ValueError: the kernel cannot express a view.
    """
    rule = RULES[type(op)]
    if not isinstance(op, ELEMENTWISE):
        return rule(op, memory, inputs, output)
    return [call for part in pieces([*inputs, output]) for call in rule(op, memory, part[:-1], part[-1])]
