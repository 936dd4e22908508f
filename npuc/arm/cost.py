"""Cycles of kernels: measured instructions for each unit of work, on the clock of the NPU."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from isa.target import Target
from npuc.arm.call import KernelCall
from npuc.arm.work import Work, work

CYCLES_PER_INSTRUCTION = (3, 2)
"""Numerator and denominator: flash wait states and taken branches of a Cortex-M33."""

TABLE = Path(__file__).with_name("instructions.json")
"""Measured on a Cortex-M33: `python -m benchmarks.kernel_instructions --write` renews it."""

TENTHS = 10
"""Of an instruction: the unit of the table."""


def arm_cycles(call: KernelCall, target: Target) -> int:
    """Expected duration of a call in cycles of the NPU's clock, rounded up."""
    tenths = instruction_tenths(work(call.kernel, call.parameters))
    numerator, denominator = CYCLES_PER_INSTRUCTION
    return -(-tenths * numerator * target.board.npu_hz // (TENTHS * denominator * target.board.arm_hz))


def instruction_tenths(found: Work) -> int:
    """Expected instructions, in tenths; KeyError for a variant that was never measured."""
    call, run, element, mac = _instructions()[found.variant]
    return call + run * found.runs + element * found.elements + mac * found.macs


@cache
def _instructions() -> dict[str, tuple[int, int, int, int]]:
    """Tenths of an instruction for a call, a run, an element and a MAC, by variant of the kernel."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))["tenths"]
    return {variant: (call, run, element, mac) for variant, (call, run, element, mac) in table.items()}
