"""What a program must not do: each fault names the instruction, what was found and what is allowed."""

import re

import numpy as np
import pytest

from isa.container import CONSTANTS_OFFSET
from isa.descriptors import Memory, address
from isa.instructions import Queue
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.program import load
from simulator.trace import timeline
from tests.simulator.assemble import SRAM_BYTES, Assembly, io_entry, sram
from tests.simulator.layer import Fields, conv_layer, scales, whole

INPUT = io_entry("x", "in", "int8", (4, 4, 8), 0)


def assemble(changes: Fields, values: Fields | None = None, mnemonic: str = "mac.conv") -> bytes:
    assembly = Assembly()
    layer = conv_layer(8, 8, scales(assembly, 8)) | changes
    weights = {"k": 0, "k_channels": 8, "weights": assembly.constant(bytes(64))} if mnemonic == "mac.conv" else {}
    assembly.add(mnemonic, {**whole(8), **weights, **(values or {})}, layer)
    return assembly.container([INPUT])


def fault(data: bytes, sram_bytes: int | None = None, layers: dict[int, str] | None = None) -> str:
    with pytest.raises(SimulatorFault) as caught:
        Machine(load(data), sram_bytes, layers=layers)
    return str(caught.value)


def test_write_behind_the_end_of_sram_names_instruction_layer_bytes_and_limit() -> None:
    message = fault(assemble({}), 0x2040, {1: "conv_1"})
    assert message == "instruction 1 (mac.conv) of layer conv_1: writes bytes 0x2000..0x207f of sram, limit 0x2040"


def test_read_behind_the_end_of_sram_is_a_fault() -> None:
    message = fault(assemble({"ifm_base": sram((1 << 19) - 1)}))
    assert "reads bytes 0x7ffff..0x8007e of sram, limit 0x80000" in message


def test_weights_behind_the_end_of_flash_are_a_fault() -> None:
    assert "of flash, limit" in fault(assemble({}, {"weights": address(Memory.FLASH, 1 << 20)}))


def test_write_to_flash_is_a_fault() -> None:
    assert "writes address 0x00000000, which is read-only flash" in fault(assemble({"ofm_base": 0}))


def test_address_of_the_fourth_memory_is_a_fault() -> None:
    assert "memory does not exist" in fault(assemble({"ifm_base": 3 << 30}))


def test_dram_of_a_target_without_it_is_a_fault() -> None:
    assert "of dram, limit 0x0" in fault(assemble({"ifm_base": address(Memory.DRAM, 0)}))


def test_read_of_bytes_that_nothing_wrote_names_the_first_of_them() -> None:
    message = fault(assemble({"ifm_base": sram(16)}))
    assert message == "instruction 1 (mac.conv): reads byte 0x80 of sram, which nothing has written"


def test_copy_of_unwritten_bytes_leaves_them_unwritten() -> None:
    assembly = Assembly()
    layer = conv_layer(8, 8, scales(assembly, 8)) | {"ifm_base": sram(0x1000)}
    assembly.add("dma.store", {"source": sram(0), "destination": sram(0x1000), "length": 129})
    assembly.add("vec.copy", whole(8), layer)
    Machine(load(assembly.container([INPUT])))
    layer["ifm_base"] += 1
    assembly.rows[-1] = ("vec.copy", whole(8), layer)
    assert "reads byte 0x1080 of sram" in fault(assembly.container([INPUT]))


def test_output_that_nothing_writes_is_a_fault() -> None:
    assembly = Assembly()
    message = fault(assembly.container([io_entry("y", "out", "int8", (3,), 64)]))
    assert message == "output y: reads byte 0x40 of sram, which nothing has written"


@pytest.mark.parametrize(
    ("mnemonic", "changes", "values", "text"),
    [
        ("mac.conv", {"ifm_zero_point": 200}, {}, "ifm has zero point 200, allowed: -128 to 127"),
        ("mac.conv", {"ifm_type": 3}, {}, "ifm has type int32, allowed: int8, uint8"),
        ("mac.conv", {"clamp_high": 128}, {}, "clamp_low..clamp_high is -128..128, allowed: within -128..127"),
        ("vec.add", {"shift_1": 1}, {}, "shift_1 is 1, allowed: 2 to 62"),
        ("vec.copy", {"ifm_type": 2}, {}, "copies int16 to int8, allowed: elements of the same number of bytes"),
        ("vec.mean", {"shift_out": 31}, {}, "mean for more than one output pixel"),
        ("vec.softmax", {}, {"channels": 7}, "computes channels 0..6 of 8, allowed: all channels"),
        ("vec.maxpool", {"pad_top": 1}, {}, "pools a window that lies outside the input"),
        ("vec.copy", {}, {"height": 1 << 16, "width": 1 << 16}, "65536 x 65536 x 8 elements, limit 67108864"),
    ],
)
def test_constants_the_machine_cannot_use_are_faults(mnemonic: str, changes: Fields, values: Fields, text: str) -> None:
    assert text in fault(assemble(changes, values, mnemonic))


def test_load_from_sram_is_a_fault() -> None:
    assembly = Assembly()
    assembly.add("dma.load", {"source": sram(0), "destination": sram(64), "length": 8})
    assert "source 0x40000000 is in memory 1, allowed: flash, dram" in fault(assembly.container([INPUT]))


def test_accumulator_that_leaves_32_bits_is_a_fault_in_strict_mode_and_wraps_otherwise() -> None:
    assembly = Assembly()
    table = scales(assembly, 8, bias=(1 << 31) - 1)
    weights = assembly.constant(bytes([1] * 64))
    values = {**whole(8), "k": 0, "k_channels": 8, "weights": weights}
    assembly.add("mac.conv", values, conv_layer(8, 8, table))
    output = io_entry("y", "out", "int8", (4, 4, 8), 0x2000)
    program = load(assembly.container([INPUT, output]))
    x = np.ones((4, 4, 8), np.int8)
    with pytest.raises(SimulatorFault, match="accumulator 2147483655 does not fit in 32 bits"):
        Machine(program, strict=True).run({"x": x})
    assert (Machine(program).run({"x": x})["y"] == -128).all()
    assert (Machine(program, strict=True).run({"x": np.zeros_like(x)})["y"] == 127).all()


def test_instruction_without_a_descriptor_is_a_fault() -> None:
    assembly = Assembly()
    assembly.add("vec.copy", {**whole(8), "slot": 3})
    with pytest.raises(SimulatorFault, match=r"instruction 0 \(vec\.copy\): uses slot 3, which holds no descriptor"):
        load(assembly.container())


def test_descriptor_outside_flash_is_a_fault() -> None:
    assembly = Assembly()
    assembly.add("desc.load", {"slot": 3, "words": 4, "address": address(Memory.FLASH, 1 << 20)})
    assembly.add("vec.copy", {**whole(8), "slot": 3})
    with pytest.raises(SimulatorFault, match="loads 32 bytes from 0x00100000, allowed: inside"):
        load(assembly.container())


def test_program_for_another_architecture_is_a_fault() -> None:
    with pytest.raises(SimulatorFault, match=r"fingerprint 0123456789abcdef, target edge-256 has [0-9a-f]{16}"):
        load(Assembly().container(fingerprint="0123456789abcdef"))


def test_unknown_target_is_a_fault_that_lists_the_known_ones() -> None:
    with pytest.raises(SimulatorFault, match=r"target mine, which is not known here; known: .*edge-256"):
        load(Assembly().container(target_name="mine"))


def test_deadlock_names_the_heads_of_the_queues() -> None:
    assembly = Assembly()
    assembly.add("wait.mac", {"wait0_queue": Queue.VEC, "wait0_count": 1})
    assembly.add("wait.vec", {"wait0_queue": Queue.MAC, "wait0_count": 1})
    program = load(assembly.container())
    with pytest.raises(SimulatorFault, match=re.escape("instruction 0 heads queue MAC and waits for VEC to retire 1")):
        timeline(program)


def test_waiting_for_an_instruction_behind_it_is_a_fault() -> None:
    assembly = Assembly()
    copy = {"source": sram(0), "destination": sram(64), "length": 8}
    assembly.add("dma.store", copy)
    assembly.add("wait.mac", {"wait0_queue": Queue.DMA_OUT, "wait0_count": 2})
    assembly.add("dma.store", copy)
    message = fault(assembly.container([INPUT]))
    assert message == "instruction 1 (wait.mac): waits for dma_out to retire 2, 1 stand before it"


def test_wrong_inputs_are_faults() -> None:
    machine = Machine(load(assemble({})), SRAM_BYTES)
    with pytest.raises(SimulatorFault, match="inputs are z, the program has x"):
        machine.run({"z": np.zeros((4, 4, 8), np.int8)})
    with pytest.raises(SimulatorFault, match=r"input x is int8 \[4, 4\], the program wants int8 \[4, 4, 8\]"):
        machine.run({"x": np.zeros((4, 4), np.int8)})


def test_constants_begin_where_the_container_says() -> None:
    assert Assembly().constant(b"x") == address(Memory.FLASH, CONSTANTS_OFFSET)
