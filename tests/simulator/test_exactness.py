"""Sums that float32 alone could not hold: long reductions of large operands, against integers of 64 bits."""

import numpy as np
import pytest

from isa import arithmetic
from simulator.machine import Machine
from simulator.program import load
from tests.simulator.assemble import Assembly, io_entry, sram

CHANNELS = 3000
OUTPUTS = 20
SHIFT = 50


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("zero_point", [0, 127])
def test_long_sums_of_large_operands_are_exact(kind: str, zero_point: int, rng: np.random.Generator) -> None:
    info = np.iinfo(kind)
    largest = info.min if kind == "int8" else info.max
    x = (largest + rng.integers(0, 60, (2, CHANNELS)) * (1 if kind == "int8" else -1)).astype(kind)
    weights = rng.integers(-128, -100, (CHANNELS, OUTPUTS)).astype(np.int8)
    bias = rng.integers(-(1 << 20), 1 << 20, OUTPUTS)
    sums = (x.astype(np.int64) - zero_point) @ weights.astype(np.int64) + bias
    assert np.abs(sums).max() > 1 << 24
    expected = arithmetic.requantize(sums, 1 << 30, SHIFT, 5, -128, 127, True)

    assembly = Assembly()
    table = np.zeros(OUTPUTS, [("bias", "<i4"), ("multiplier", "<i4"), ("shift", "u1"), ("reserved", "u1")])
    table["bias"], table["multiplier"], table["shift"] = bias, 1 << 30, SHIFT
    packed = weights[:, :16].tobytes() + weights[:, 16:].tobytes()
    layer = {
        "ofm_base": sram(0x8000), "ofm_pixel": OUTPUTS, "ofm_block": 16, "ofm_c0": 16, "ofm_zero_point": 5,
        "ifm_base": sram(0), "ifm_pixel": CHANNELS, "ifm_block": 16, "ifm_c0": 16, "ifm_zero_point": zero_point,
        "ifm_type": int(kind == "uint8"), "ifm_height": 1, "ifm_width": 2, "ifm_channels": CHANNELS,
        "ofm_channels": OUTPUTS, "double_round": 1, "clamp_low": -128, "clamp_high": 127,
        "scales": assembly.constant(table.tobytes()),
    }  # fmt: skip
    values = {"n": 0, "y": 0, "x": 0, "c": 0, "height": 1, "width": 2, "channels": OUTPUTS, "k": 0}
    values |= {"k_channels": CHANNELS, "weights": assembly.constant(packed)}
    assembly.add("mac.conv", values, layer)
    io = [io_entry("x", "in", kind, (2, CHANNELS), 0), io_entry("y", "out", "int8", (2, OUTPUTS), 0x8000)]
    y = Machine(load(assembly.container(io)), strict=True).run({"x": x})["y"]
    assert (y == expected).all()
    assert len(np.unique(y)) > 1
