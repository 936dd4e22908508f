"""Softmax over the channels of each pixel."""

from __future__ import annotations

from collections.abc import Mapping

from isa import arithmetic
from simulator.execute.binding import Binder, Binding, Step

MAX_CHANNELS = 4095
"""The sum of exponentials has 12 integer bits."""

MAX_LEFT_SHIFT = 31


def _softmax(binding: Binding) -> Step:
    region, layer = binding.region, binding.descriptor
    binding.require_int8("ifm", "ofm")
    multiplier, left_shift = layer["multiplier_1"], layer["left_shift"]
    if region.c or region.channels != layer["ifm_channels"] or region.channels > MAX_CHANNELS:
        raise binding.site.fault(
            f"computes channels {region.c}..{region.c + region.channels - 1} of {layer['ifm_channels']}, "
            f"allowed: all channels, at most {MAX_CHANNELS}"
        )
    if left_shift > MAX_LEFT_SHIFT or multiplier < 0:
        raise binding.site.fault(
            f"scales differences by {multiplier} and left shift {left_shift}, "
            f"allowed: at least 0, at most {MAX_LEFT_SHIFT}"
        )
    source = binding.reads("ifm", region)
    output = binding.writes(region)
    return lambda: output.write(arithmetic.softmax(source.read(), multiplier, left_shift, 2))


BINDERS: Mapping[str, Binder] = {"vec.softmax": _softmax}
