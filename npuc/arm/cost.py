"""Cycles of kernels: instructions for each unit of work, and what an instruction costs beside the NPU's clock."""

from __future__ import annotations

from dataclasses import dataclass

from isa.target import Target
from npuc.arm.kernel_call import KernelCall
from npuc.arm.parameters import decode_parameters

CYCLES_PER_INSTRUCTION = (3, 2)
"""Numerator and denominator: flash wait states and taken branches of a Cortex-M33."""


@dataclass(frozen=True)
class Instructions:
    """Instructions of a call: `call` once, `element` for each element (a copy: byte) of its largest operand, `mac` for
    each product of a convolution and each tap of a pooling window."""

    call: int = 200
    element: int = 20
    mac: int = 0


INSTRUCTIONS: dict[str, Instructions] = {
    "conv2d": Instructions(element=120, mac=8),
    "add": Instructions(element=70),
    "mul": Instructions(element=50),
    "table": Instructions(element=8),
    "max_pool": Instructions(element=20, mac=6),
    "average_pool": Instructions(element=40, mac=6),
    "mean": Instructions(element=10),
    "softmax": Instructions(element=120),
    "resize": Instructions(element=8),
    "resize_bilinear": Instructions(element=60),
    "copy": Instructions(element=6),
}
"""By kernel; one that is not listed has the default."""


def arm_cycles(call: KernelCall, target: Target) -> int:
    """Expected duration of a call in cycles of the NPU's clock, rounded up."""
    record = decode_parameters(call.kernel, call.parameters)
    cost = INSTRUCTIONS.get(call.kernel, Instructions())
    instructions = cost.call + cost.element * record.n_elements + cost.mac * record.n_macs
    numerator, denominator = CYCLES_PER_INSTRUCTION
    return -(-instructions * numerator * target.board.npu_hz // (denominator * target.board.arm_hz))
