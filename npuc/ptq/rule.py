"""The table of quantization rules: how each float operator becomes integer operators.

A rule is a function `(op, step, emitter) -> None` that emits the integer operators which compute `step.result`; `op` is
the float operator, and `@rule(Conv)` enters the rule. It raises ValueError with a one-line reason when the node has no
integer form. The table is complete once `npuc.ptq.quantize` is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from npuc.graph.types import QuantParams
from npuc.ops.integer.operand import Range
from npuc.ops.op import Op
from npuc.ptq.emitter import Emitter
from npuc.ptq.fusion import Clamp
from npuc.ptq.plan import Step
from npuc.ptq.pointwise import encode

Rule = Callable[[Any, Step, Emitter], None]
RuleT = TypeVar("RuleT", bound=Rule)

RULES: dict[type[Op], Rule] = {}


def rule(*kinds: type[Op]) -> Callable[[RuleT], RuleT]:
    """Enter a rule for these float operators."""

    def enter(function: RuleT) -> RuleT:
        RULES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def clamp_codes(clamp: Clamp, quant: QuantParams) -> Range:
    """The bounds of a float clamp as int8 codes."""
    low, high = encode(np.array([clamp.low, clamp.high]), quant)
    return int(low), int(high)
