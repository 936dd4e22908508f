"""Constants of a layer descriptor, checked against what the arithmetic is defined for."""

from __future__ import annotations

import numpy as np

from isa.arithmetic import Addition, Rescale
from simulator.execute.binding import Binding

SHIFTS = (2, 62)
"""Right shifts that a rescale is defined for."""

MAX_LEFT_SHIFT = 22
"""The difference of two 8-bit values, shifted, stays within 32 bits."""


def rescale(binding: Binding, name: str) -> Rescale:
    """The factor `1`, `2` or `out`."""
    shift = binding.descriptor[f"shift_{name}"]
    if not SHIFTS[0] <= shift <= SHIFTS[1]:
        raise binding.site.fault(f"shift_{name} is {shift}, allowed: {SHIFTS[0]} to {SHIFTS[1]}")
    return Rescale(binding.descriptor[f"multiplier_{name}"], shift)


def clamp(binding: Binding, low: str = "clamp_low", high: str = "clamp_high") -> tuple[int, int]:
    """Smallest and largest output, both values of the output's type."""
    bounds = binding.descriptor[low], binding.descriptor[high]
    info = np.iinfo(binding.operand("ofm").dtype)
    if not info.min <= bounds[0] <= bounds[1] <= info.max:
        raise binding.site.fault(f"{low}..{high} is {bounds[0]}..{bounds[1]}, allowed: within {info.min}..{info.max}")
    return bounds


def addition(binding: Binding, first_zero_point: int) -> Addition:
    """Constants of an addition whose second operand is `ifm2`."""
    left_shift = binding.descriptor["left_shift"]
    if left_shift > MAX_LEFT_SHIFT:
        raise binding.site.fault(f"left_shift is {left_shift}, limit {MAX_LEFT_SHIFT}")
    low, high = clamp(binding)
    return Addition(
        left_shift,
        rescale(binding, "1"),
        rescale(binding, "2"),
        rescale(binding, "out"),
        first_zero_point,
        binding.operand("ifm2").zero_point,
        binding.operand("ofm").zero_point,
        low,
        high,
    )
