"""Strict mode, one wrong program for each kind of finding; every message names the instructions and their layers."""

import pytest

from isa.instructions import Queue
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.program import load
from simulator.strict import Finding, check
from tests.simulator.assemble import Assembly, io_entry, sram
from tests.simulator.layer import OFM, SIDE, conv_layer, scales, tensor, whole

INPUT = io_entry("x", "in", "int8", (SIDE, SIDE, 8), 0)
OUTPUT = io_entry("y", "out", "int8", (SIDE, SIDE, 8), OFM)
LAYERS = {0: "load from /w", 2: "conv from /a/Conv", 4: "copy from /b/Copy"}
AFTER_MAC = {"wait0_queue": Queue.MAC, "wait0_count": 1}
AFTER_LOAD = {"wait0_queue": Queue.DMA_IN, "wait0_count": 1}


def conv(assembly: Assembly, waits: dict[str, int], **changes: int) -> None:
    """A convolution of the input, with weights at sram 0x1000."""
    values = {**whole(8), "k": 0, "k_channels": 8, "weights": sram(0x1000)}
    assembly.add("mac.conv", {**values, **waits}, {**conv_layer(8, 8, scales(assembly, 8)), **changes})


def copy(assembly: Assembly, waits: dict[str, int], source: int, destination: int, **values: int) -> None:
    layer = {**conv_layer(8, 8, 0), **tensor("ifm", source, 8), **tensor("ofm", destination, 8)}
    assembly.add("vec.copy", {**whole(8), **waits, **values}, layer)


def findings(assembly: Assembly) -> list[Finding]:
    return check(load(assembly.container([INPUT, OUTPUT])), LAYERS)


def loaded() -> Assembly:
    """Weights of a convolution on their way."""
    assembly = Assembly()
    weights = assembly.constant(bytes(64))
    assembly.add("dma.load", {"source": weights, "destination": sram(0x1000), "length": 64})
    return assembly


def test_ordered_program_has_no_findings() -> None:
    assembly = loaded()
    conv(assembly, AFTER_LOAD)
    copy(assembly, AFTER_MAC, OFM, 0x3000)
    assert findings(assembly) == []


def test_read_that_no_condition_orders_behind_the_write_is_a_race() -> None:
    assembly = loaded()
    conv(assembly, AFTER_LOAD)
    copy(assembly, AFTER_LOAD, OFM, 0x3000)
    assert findings(assembly) == [
        Finding(
            "race",
            "instruction 4 (vec.copy) of layer copy from /b/Copy reads bytes that instruction 2 (mac.conv) of layer "
            "conv from /a/Conv writes, and no condition orders them",
            (2, 4),
        )
    ]


def test_order_passes_through_other_instructions() -> None:
    assembly = loaded()
    conv(assembly, AFTER_LOAD)
    copy(assembly, AFTER_MAC, 0, 0x1000)
    assert findings(assembly) == []


def test_write_that_no_condition_orders_behind_the_read_is_a_race() -> None:
    assembly = loaded()
    conv(assembly, AFTER_LOAD)
    copy(assembly, AFTER_LOAD, OFM, 0)
    assert {found.instructions for found in findings(assembly)} == {(2, 4)}


def test_read_after_write_within_a_queue_needs_a_condition() -> None:
    assembly = Assembly()
    copy(assembly, {}, 0, OFM)
    copy(assembly, {}, OFM, 0x3000)
    assert [found.kind for found in findings(assembly)] == ["race"]


def test_write_after_read_within_a_queue_needs_none() -> None:
    assembly = Assembly()
    copy(assembly, {}, 0, OFM)
    copy(assembly, {}, 0, 0)
    assert findings(assembly) == []


def test_convolution_in_place_overwrites_its_own_input() -> None:
    assembly = loaded()
    conv(assembly, AFTER_LOAD, ofm_base=sram(0))
    found = check(load(assembly.container([INPUT])))
    assert [item.instructions for item in found] == [(2, 2)]
    assert found[0].message == "instruction 2 (mac.conv) overwrites its own input"


@pytest.mark.parametrize(("changes", "instructions"), [
    ({"ofm_base": sram(0)}, []), ({"ofm_base": sram(8)}, [(1, 1)]), ({"ofm_base": sram(0), "kernel_w": 2}, [(1, 1)]),
    ({"ofm_base": sram(0), "kernel_h": 3, "pad_top": 1}, [(1, 1)]), ({"ofm_base": sram(0), "stride_w": 2}, [(1, 1)]),
])  # fmt: skip
def test_only_a_depthwise_convolution_of_one_tap_may_write_in_place(
    changes: dict[str, int], instructions: list[tuple[int, int]]
) -> None:
    assembly = Assembly()
    values = {**whole(8), "width": 2, "k": 0, "k_channels": 1, "weights": assembly.constant(bytes(64))}
    assembly.add("mac.depthwise", values, {**conv_layer(8, 8, scales(assembly, 8)), **changes})
    assert [item.instructions for item in check(load(assembly.container([INPUT])))] == instructions


def test_part_of_an_input_overwritten_before_its_reader() -> None:
    assembly = loaded()
    assembly.add("dma.load", {"source": assembly.constant(bytes(16)), "destination": sram(0x70), "length": 16})
    conv(assembly, {"wait0_queue": Queue.DMA_IN, "wait0_count": 2})
    assert [(found.kind, found.instructions) for found in findings(assembly)] == [("overwritten", (3,))]
    assert "reads what input x wrote, a part of which was overwritten before" in findings(assembly)[0].message


def test_weights_overwritten_behind_their_scales() -> None:
    assembly = Assembly()
    scales(assembly, 8)
    source = assembly.constant(bytes(64)) - 80
    assembly.add("dma.load", {"source": source, "destination": sram(0xFB0), "length": 144})
    copy(assembly, AFTER_LOAD, 0, 0x1000, height=2)
    conv(assembly, {"wait0_queue": Queue.VEC, "wait0_count": 1}, scales=sram(0xFB0))
    assert [(found.kind, found.instructions) for found in findings(assembly)] == [("overwritten", (0, 4))]


def test_scales_overwritten_between_two_stripes() -> None:
    assembly = Assembly()
    scales(assembly, 8)
    weights = assembly.constant(bytes(64))
    assembly.add("dma.load", {"source": weights - 80, "destination": sram(0x1000), "length": 80})
    layer = conv_layer(8, 8, sram(0x1000))
    stripe = {**whole(8), "k": 0, "k_channels": 8, "weights": weights, "height": 2}
    assembly.add("mac.conv", {**stripe, **AFTER_LOAD}, layer)
    copy(assembly, AFTER_MAC, 0, 0x1000)
    assembly.add("mac.conv", {**stripe, "y": 2, "wait0_queue": Queue.VEC, "wait0_count": 1}, layer)
    found = findings(assembly)
    assert [(item.kind, item.instructions) for item in found] == [("overwritten", (4, 6))]
    assert "reads its scales, which instruction 4 (vec.copy) of layer copy from /b/Copy overwrote" in found[0].message


def test_load_that_nothing_reads_before_the_next_one_overwrites_it() -> None:
    assembly = loaded()
    assembly.add("dma.load", {"source": assembly.constant(bytes(80)), "destination": sram(0xFF8), "length": 80})
    conv(assembly, {"wait0_queue": Queue.DMA_IN, "wait0_count": 2})
    assert [(found.kind, found.instructions) for found in findings(assembly)] == [("overwritten", (0, 1))]


def test_row_of_an_input_overwritten_between_two_stripes() -> None:
    assembly = Assembly()
    layer = conv_layer(8, 8, scales(assembly, 8))
    rows = {**whole(8), "height": 2}
    stripe = {**rows, "k": 0, "k_channels": 8, "weights": assembly.constant(bytes(64))}
    table = {**layer, **tensor("ofm", 0, 8), "table": assembly.constant(bytes(256))}
    assembly.add("mac.conv", {**stripe, "y": 0}, layer)
    assembly.add("vec.table", {**rows, "y": 2, **AFTER_MAC}, table)
    assembly.add("mac.conv", {**stripe, "y": 2, "wait0_queue": Queue.VEC, "wait0_count": 1}, layer)
    found = check(load(assembly.container([INPUT])))
    assert [(item.kind, item.instructions) for item in found] == [("overwritten", (5,))]


def test_row_of_a_line_buffer_overwritten_before_its_reader() -> None:
    assembly = Assembly()
    ring = {f"{prefix}_ring": 3 for prefix in ("ofm", "ifm")}
    layer = conv_layer(8, 8, 0)
    into = {**layer, **tensor("ofm", 0x4000, 8), "ofm_ring": ring["ofm_ring"]}
    out_of = {**layer, **tensor("ifm", 0x4000, 8), "ifm_ring": ring["ifm_ring"]}
    rows = {**whole(8), "height": 1}
    for y in range(SIDE):
        assembly.add("vec.copy", {**rows, "y": y}, into)
    assembly.add("vec.copy", {**rows, "wait0_queue": Queue.VEC, "wait0_count": SIDE}, out_of)
    found = check(load(assembly.container([INPUT])))
    assert [(item.kind, item.instructions) for item in found] == [("overwritten", (7, 9))]
    assert "reads row 0, which instruction 7 (vec.copy) overwrote with row 3" in found[0].message


def test_a_wait_of_the_array_reads_no_scales() -> None:
    assembly = Assembly()
    assembly.add("wait.vec", {})
    assembly.add("wait.mac", {"wait0_queue": Queue.VEC, "wait0_count": 1})
    assert check(load(assembly.container([INPUT]))) == []


def test_deadlock_of_two_queues() -> None:
    assembly = Assembly()
    assembly.add("wait.mac", {"wait0_queue": Queue.VEC, "wait0_count": 1})
    assembly.add("wait.vec", {"wait0_queue": Queue.MAC, "wait0_count": 1})
    assert [(found.kind, found.instructions) for found in findings(assembly)] == [("deadlock", (i,)) for i in (0, 1)]


def test_deadlock_of_the_fetcher() -> None:
    assembly = Assembly()
    depth = load(assembly.container()).target.costs.queue_depth
    for _ in range(depth + 1):
        assembly.add("wait.mac", {"wait0_queue": Queue.VEC, "wait0_count": 1})
    assembly.add("wait.vec", {})
    assert [(found.kind, found.instructions) for found in findings(assembly)] == [
        ("deadlock", (i,)) for i in (0, depth)
    ]


def test_bytes_that_nothing_has_written_and_addresses_out_of_range_are_faults() -> None:
    assembly = Assembly()
    copy(assembly, {}, 0x5000, OFM)
    copy(assembly, {}, 0, (1 << 30) - 64)
    conv(assembly, AFTER_LOAD, scales=sram(1 << 29))
    assembly.add("dma.load", {"source": assembly.constant(bytes(64)), "destination": sram(0x1000), "length": 64})
    assembly.rows.insert(0, assembly.rows.pop())
    messages = [found.message for found in findings(assembly)]
    assert "reads byte 0x5000 of sram, which nothing has written" in messages[0]
    assert "limit" in messages[1]
    assert "reads bytes 0x20000000" in messages[2]


def test_strict_machine_refuses_a_race_and_says_what_to_do() -> None:
    assembly = loaded()
    conv(assembly, {})
    program = load(assembly.container([INPUT, OUTPUT]))
    Machine(program)
    with pytest.raises(SimulatorFault, match=r"race: instruction 2 \(mac.conv\) reads bytes that") as caught:
        Machine(program, strict=True)
    assert caught.value.hint == "let the later instruction wait for the earlier one to retire"


def free_copy(
    assembly: Assembly, n_earlier: int, source: int, destination: int, channels: int, zero_point: int = 0
) -> None:
    """A copy of one pixel whose origin holds the addresses, once `n_earlier` copies have retired."""
    layer = {"ifm_base": sram(0), "ofm_base": sram(0), "ifm_row": 1, "ofm_pixel": 1}
    layer |= {"clamp_low": -128, "clamp_high": 127, "ifm_zero_point": zero_point, "ofm_zero_point": zero_point}
    layer |= {f"{prefix}_{name}": 16 for prefix in ("ifm", "ofm") for name in ("block", "c0")}
    layer |= dict.fromkeys(("ifm_height", "ifm_width", "ifm_channels", "ofm_channels"), 1 << 15)
    values = {"n": 0, "y": source, "x": destination, "c": 0, "height": 1, "width": 1, "channels": channels}
    waits = {"wait0_queue": Queue.VEC, "wait0_count": n_earlier} if n_earlier else {}
    assembly.add("vec.copy", {**values, **waits}, layer)


def test_origins_tell_tensors_apart_whose_instructions_share_a_descriptor() -> None:
    assembly = Assembly()
    free_copy(assembly, 0, 0, 0x4000, 16)
    free_copy(assembly, 1, 0x4000, 0x3000, 16)
    free_copy(assembly, 2, 0, 0x4008, 8, zero_point=1)  # over half of the first tensor
    free_copy(assembly, 3, 0, 0x4010, 8)
    free_copy(assembly, 4, 0x4008, 0x3000, 16)
    program = load(assembly.container([INPUT, io_entry("y", "out", "int8", (1, 1, 16), 0x3000)]))
    assert check(program) == []
