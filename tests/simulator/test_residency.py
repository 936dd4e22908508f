"""Constants are the same wherever they lie: in flash, or copied to sram by DMA."""

import numpy as np
import pytest

from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.program import load
from tests.simulator.assemble import Assembly, io_entry, sram
from tests.simulator.layer import conv_layer, scales, whole

INPUT = io_entry("x", "in", "int8", (4, 4, 8), 0)
OUTPUT = io_entry("y", "out", "int8", (4, 4, 8), 0x2000)


def convolution(*, in_sram: bool, shift: int = 40) -> bytes:
    rng = np.random.default_rng(0)
    assembly = Assembly()
    places = {
        "weights": (assembly.constant(rng.integers(-128, 128, 64, dtype=np.int8).tobytes()), sram(0x4000), 64),
        "scales": (scales(assembly, 8, bias=1234, shift=shift), sram(0x5001), 80),
        "table": (assembly.constant(rng.integers(-128, 128, 256, dtype=np.int8).tobytes()), sram(0x6003), 256),
    }
    if in_sram:
        for source, destination, length in places.values():
            assembly.add("dma.load", {"source": source, "destination": destination, "length": length})
    at = {name: place[in_sram] for name, place in places.items()}
    layer = conv_layer(8, 8, at["scales"]) | {"use_table": 1, "table": at["table"], "ifm_zero_point": 5}
    assembly.add("mac.conv", {**whole(8), "k": 0, "k_channels": 8, "weights": at["weights"]}, layer)
    return assembly.container([INPUT, OUTPUT])


def test_constants_in_sram_give_what_constants_in_flash_give(rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (4, 4, 8), dtype=np.int8)
    in_flash, in_sram = (Machine(load(convolution(in_sram=place))).run({"x": x})["y"] for place in (False, True))
    assert (in_flash == in_sram).all()
    assert len(np.unique(in_flash)) > 20


@pytest.mark.parametrize("in_sram", [False, True])
def test_shift_outside_the_arithmetic_is_a_fault(in_sram: bool) -> None:
    with pytest.raises(SimulatorFault, match="requantization shifts 63 to 63, allowed: 2 to 62"):
        Machine(load(convolution(in_sram=in_sram, shift=63))).run({"x": np.zeros((4, 4, 8), np.int8)})
