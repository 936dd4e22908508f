"""One operator of a graph as calls of kernels: a rule for each operator, entered in RULES."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.arm.call import KernelCall, Rule, merge_axes
from npuc.arm.float_rule import FLOAT_RULES
from npuc.arm.index_rule import INDEX_RULES
from npuc.arm.integer_rule import INTEGER_RULES
from npuc.arm.memory import MemoryMap, View
from npuc.arm.move_rule import MOVE_RULES, copy
from npuc.ops.op import Op

__all__ = ["RULES", "KernelCall", "Rule", "copy", "kernel_calls", "merge_axes"]

RULES: dict[type[Op], Rule] = {**INTEGER_RULES, **INDEX_RULES, **MOVE_RULES, **FLOAT_RULES}


def kernel_calls(op: Op, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    """Calls that write `op` of the inputs to the output; KeyError for an operator that has no kernel.

    ValueError: the kernel cannot express a view.
    """
    return RULES[type(op)](op, memory, inputs, output)
