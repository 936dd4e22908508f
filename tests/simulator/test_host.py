"""The machine and its float boundary: samples, types, what stays in memory from run to run."""

import numpy as np
import pytest

from isa import arithmetic
from isa.descriptors import Memory
from simulator.errors import SimulatorFault
from simulator.host import run_samples
from simulator.machine import Machine
from simulator.memory import Array
from simulator.program import load
from tests.simulator.assemble import Assembly, io_entry, sram

SCALE, ZERO_POINT = 0.5, 3
FLOAT = {"scale": SCALE, "zero_point": ZERO_POINT, "host_dtype": "float32"}


def copying_machine(*, half_even: bool = True, host_dtype: str = "float32") -> Machine:
    """y [2, 3] = x [2, 3]."""
    assembly = Assembly()
    assembly.add("dma.store", {"source": sram(0), "destination": sram(64), "length": 6})
    changes = {**FLOAT, "half_even": half_even, "host_dtype": host_dtype}
    io = [io_entry("x", "in", "int8", (2, 3), 0, **changes), io_entry("y", "out", "int8", (2, 3), 64, **changes)]
    return Machine(load(assembly.container(io)))


@pytest.mark.parametrize("half_even", [True, False])
def test_float_samples_are_quantized_and_dequantized_at_the_boundary(half_even: bool, rng: np.random.Generator) -> None:
    x = np.round(rng.normal(0, 30, (10, 3)) * 4) / 4
    y = run_samples(copying_machine(half_even=half_even), {"x": x})["y"]
    stored = arithmetic.quantize(x.astype(np.float32), SCALE, ZERO_POINT, np.int8, half_even)
    assert y.dtype == np.float32
    assert (y == arithmetic.dequantize(stored, SCALE, ZERO_POINT)).all()


def test_array_of_the_stored_type_is_used_raw(rng: np.random.Generator) -> None:
    x = rng.integers(-128, 128, (4, 3)).astype(np.int8)
    y = run_samples(copying_machine(host_dtype="int8"), {"x": x})["y"]
    assert y.dtype == np.int8
    assert (y == x).all()


def test_no_samples_give_empty_outputs() -> None:
    assert run_samples(copying_machine(), {"x": np.zeros((0, 3), np.int8)})["y"].shape == (0, 3)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.zeros((3, 3), np.int8), r"input x has shape \[3, 3\], the program wants \[samples x 2, 3\]"),
        (np.full((2, 3), np.nan), "input x: cannot quantize NaN"),
        (np.zeros((2, 3), complex), "input x has type complex128, allowed: integers and real numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_faults(x: Array, text: str) -> None:
    with pytest.raises(SimulatorFault, match=text):
        run_samples(copying_machine(), {"x": x})


def counting_machine() -> Machine:
    """y = s + x, s = y for a byte s of sram that nobody initializes but an input."""
    factor = {f"multiplier_{i}": 1 << 30 for i in ("1", "2", "out")} | {"shift_1": 30, "shift_2": 30, "shift_out": 50}
    layer = {
        "ofm_base": sram(1), "ifm_base": sram(0), "ifm2_base": sram(1), "ifm_height": 1, "ifm_width": 1,
        "ifm_channels": 1, "ofm_channels": 1, "left_shift": 20, "clamp_low": -128, "clamp_high": 127, **factor,
    }  # fmt: skip
    assembly = Assembly()
    clear = {"size_0": 1, "size_1": 1, "size_2": 1, "size_3": 1}
    assembly.add("dma.fill", {"destination": sram(2), "value": 0}, clear)
    region = {"n": 0, "y": 0, "x": 0, "c": 0, "height": 1, "width": 1, "channels": 1}
    assembly.add("vec.add", region, layer)
    io = [io_entry("x", "in", "int8", (1,), 0), io_entry("s", "in", "int8", (1,), 1)]
    return Machine(load(assembly.container([*io, io_entry("y", "out", "int8", (1,), 1)])))


def test_memories_keep_their_contents_until_reset() -> None:
    machine = counting_machine()
    result = machine.run({"x": np.array([5], np.int8), "s": np.array([7], np.int8)})
    assert result["y"] == 12
    assert machine.memories.arrays[Memory.SRAM][1] == 12
    machine.reset()
    assert not machine.memories.arrays[Memory.SRAM].any()


def test_inputs_with_different_numbers_of_samples_are_a_fault() -> None:
    arrays = {"x": np.zeros(3, np.int8), "s": np.zeros(2, np.int8)}
    with pytest.raises(SimulatorFault, match=r"inputs have different numbers of samples: \{'x': 3, 's': 2\}"):
        run_samples(counting_machine(), arrays)
