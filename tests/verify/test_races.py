"""Hand-made programs: each breaks one rule of the manual, and the verdict names instructions and bytes."""

from collections.abc import Mapping

import pytest

from isa.errors import IsaError
from isa.state import StateEntry, encode_states
from npuc.verify import Verdict, verify_program
from tests.simulator.assemble import SRAM_BYTES, WHOLE_SRAM, Assembly, io_entry, sram
from tests.simulator.layer import SIDE, conv_layer, scales, whole
from tests.verify.networks import compile_for, conv_add_softmax

PLANE: dict[str, int] = {"height": 1, "width": 16, "channels": 16}


def wait(**counts: int) -> dict[str, int]:
    """Header fields of conditions: `wait(mac=2)`."""
    numbers = {"dma_in": 0, "dma_out": 1, "mac": 2, "vec": 3, "arm": 4}
    fields: dict[str, int] = {}
    for i, (name, count) in enumerate(counts.items()):
        fields |= {f"wait{i}_queue": numbers[name], f"wait{i}_count": count & 0xFFFF}
    return fields


def layer(source: int, target: int, **changes: int) -> dict[str, int]:
    """A table lookup's descriptor: 16 pixels of 16 channels, dense."""
    record = {"table": sram(0x8000), "ifm_base": sram(source), "ofm_base": sram(target), "ifm_height": 1}
    for prefix in ("ifm", "ofm"):
        record |= {f"{prefix}_pixel": 16, f"{prefix}_row": 256, f"{prefix}_block": 16, f"{prefix}_c0": 16}
    return {**record, "ifm_width": 16, "ifm_channels": 16, "ofm_channels": 16, **changes}


def region(**changes: int) -> dict[str, int]:
    return {"n": 0, "y": 0, "x": 0, "c": 0, **PLANE, **changes}


WHOLE = region()


class Program(Assembly):
    """Loads and stores of 256 bytes, and lookups."""

    def load(self, target: int, **conditions: int) -> None:
        source = self.constant(bytes(256))
        self.add("dma.load", {"source": source, "destination": sram(target), "length": 256, **wait(**conditions)})

    def store(self, source: int, target: int, **conditions: int) -> None:
        values = {"source": sram(source), "destination": sram(target), "length": 256}
        self.add("dma.store", {**values, **wait(**conditions)})

    def table(self, record: Mapping[str, int], values: Mapping[str, int] = WHOLE, **conditions: int) -> None:
        self.add("vec.table", {**values, **wait(**conditions)}, record)

    def verdict(self) -> Verdict:
        return verify_program(self.container(), sram_bytes=SRAM_BYTES)


def raced(verdict: Verdict) -> list[tuple[int, ...]]:
    assert not verdict.findings
    return [race.instructions for race in verdict.races]


def test_read_of_a_load_needs_a_wait() -> None:
    program = Program()
    program.load(0)
    program.table(layer(0, 0x1000))
    verdict = program.verdict()
    assert raced(verdict) == [(0, 2)]
    assert verdict.races[0].message == (
        "instruction 2 vec.table reads sram 0x0..0xff, which instruction 0 dma.load writes, and no wait orders them"
    )


def test_wait_orders_read_after_write() -> None:
    program = Program()
    program.load(0)
    program.table(layer(0, 0x1000), dma_in=1)
    assert program.verdict().ok


def test_wait_for_too_few_is_a_race() -> None:
    program = Program()
    program.load(0)
    program.load(0x400)
    program.table(layer(0x400, 0x1000), dma_in=1)
    assert raced(program.verdict()) == [(1, 3)]


def test_one_byte_in_common_is_enough() -> None:
    program = Program()
    program.load(0xFF)
    program.table(layer(0, 0x1000))
    assert program.verdict().races[0].addresses == range(sram(0xFF), sram(0x100))


def test_overwriting_what_is_read_needs_a_wait() -> None:
    program = Program()
    program.table(layer(0, 0x1000))
    program.load(0)
    assert raced(program.verdict()) == [(1, 2)]


def test_two_queues_writing_one_byte_race() -> None:
    program = Program()
    program.table(layer(0, 0x1000))
    program.load(0x1080)
    assert raced(program.verdict()) == [(1, 2)]


def test_read_after_write_within_a_queue_needs_a_wait_on_itself() -> None:
    for conditions, expected in (({}, [(1, 3)]), ({"vec": 1}, [])):
        program = Program()
        program.table(layer(0, 0x1000))
        program.table(layer(0x1000, 0x2000), WHOLE, **conditions)
        assert raced(program.verdict()) == expected


def test_writes_within_a_queue_keep_their_order() -> None:
    program = Program()
    program.table(layer(0, 0x1000))
    program.table(layer(0x2000, 0x1000))
    program.table(layer(0x2000, 0))
    assert program.verdict().ok


def test_order_is_transitive_through_other_queues_and_predecessors() -> None:
    program = Program()
    program.load(0)
    program.store(0x4000, 0x5000, dma_in=1)
    program.table(layer(0x6000, 0x7000), dma_out=1)
    program.table(layer(0, 0x1000))
    assert program.verdict().ok


def test_wait_instruction_carries_conditions() -> None:
    program = Program()
    program.load(0)
    program.add("wait.vec", {"more2_queue": 0, "more2_count": 1})
    program.table(layer(0, 0x1000))
    assert program.verdict().ok


def test_fetcher_that_waits_orders_everything_behind_it() -> None:
    program = Program()
    program.load(0)
    program.add("desc.load", {"slot": 31, "words": 1, "address": 0, **wait(dma_in=1)})
    program.table(layer(0, 0x1000))
    assert program.verdict().ok


def test_interleaved_channels_do_not_meet() -> None:
    """Two halves of every pixel, as concat by placement leaves them; one channel more and they meet."""
    for channels, expected in ((8, []), (9, [(1, 3)])):
        program = Program()
        program.table(layer(0, 0x1000), region(channels=channels))
        program.add("vec.copy", region(channels=8), layer(0x1008, 0x2000))
        assert raced(program.verdict()) == expected


def test_rows_of_a_line_buffer_are_found_behind_its_end() -> None:
    ring = layer(0, 0x1000, ofm_ring=2)
    for row, expected in ((0, []), (1, [(1, 3)])):
        program = Program()
        program.table(ring, region(y=3))
        program.table(layer(0x1000 + 256 * row, 0x2000))
        assert raced(program.verdict()) == expected


def test_instruction_may_replace_its_input_only_in_place() -> None:
    in_place, shifted = Program(), Program()
    in_place.table(layer(0, 0))
    shifted.table(layer(0, 16))
    assert in_place.verdict().ok
    assert raced(shifted.verdict()) == [(1, 1)]


@pytest.mark.parametrize(("changes", "races"), [
    ({"ofm_base": sram(0)}, []), ({"ofm_base": sram(8)}, [(1, 1)]), ({"ofm_base": sram(0), "kernel_w": 2}, [(1, 1)]),
    ({"ofm_base": sram(0), "kernel_h": 3, "pad_top": 1}, [(1, 1)]), ({"ofm_base": sram(0), "stride_w": 2}, [(1, 1)]),
])  # fmt: skip
def test_only_a_depthwise_convolution_of_one_tap_may_replace_its_input(
    changes: dict[str, int], races: list[tuple[int, int]]
) -> None:
    program = Assembly()
    values = {**whole(8), "width": 2, "k": 0, "k_channels": 1, "weights": program.constant(bytes(64))}
    program.add("mac.depthwise", values, {**conv_layer(8, 8, scales(program, 8)), **changes})
    image = io_entry("x", "in", "int8", (SIDE, SIDE, 8), 0)
    assert raced(verify_program(program.container([image]), sram_bytes=SRAM_BYTES)) == races


def test_counts_are_modulo_2_to_the_16() -> None:
    program = Program()
    program.load(0)
    program.table(layer(0, 0x1000), dma_in=-3)
    assert raced(program.verdict()) == [(0, 2)]


@pytest.mark.parametrize(
    ("conditions", "kind"),
    [({"vec": 1}, "deadlock"), ({"dma_in": 1}, "deadlock"), ({"arm": 1}, "deadlock")],
    ids=["itself", "never retired", "arm"],
)
def test_waiting_for_what_never_retires_is_a_deadlock(conditions: dict[str, int], kind: str) -> None:
    program = Program()
    program.table(layer(0, 0x1000), WHOLE, **conditions)
    assert [(finding.kind, finding.instructions) for finding in program.verdict().findings] == [(kind, (1,))]


@pytest.mark.parametrize(("between", "ok"), [(15, True), (16, False)])
def test_waiting_for_a_later_instruction_depends_on_the_depth_of_the_queue(between: int, ok: bool) -> None:
    """The load waits for a copy that the fetcher reaches only while there is room in the queue of loads."""
    program = Program()
    program.load(0, vec=1)
    for i in range(between):
        program.load(0x100 + 0x100 * i)
    program.table(layer(0x7000, 0x7100))
    verdict = program.verdict()
    assert verdict.ok == ok
    assert [finding.kind for finding in verdict.findings] == ([] if ok else ["deadlock"])


@pytest.mark.parametrize(
    ("record", "values", "kind"),
    [
        (layer(SRAM_BYTES - 255, 0), region(), "range"),
        (layer(0, SRAM_BYTES - 255), region(), "range"),
        (layer(0, 0, ofm_base=0), region(), "range"),
        (layer(0, 0, ofm_base=3 << 30), region(), "range"),
        (layer(0, 0x1000, ofm_pixel=15), region(), "overlap"),
        (layer(0, 0x1000, ofm_ring=1), region(height=2), "overlap"),
        (layer(0, 0x1000, ifm_ring=1), region(height=2), "limit"),
        (layer(0, 0x1001, ofm_type=2, ofm_c0=8, ofm_block=16), region(channels=8), "alignment"),
        (layer(0, 0x1000), region(c=1), "limit"),
        (layer(0, 0x1000), region(height=1 << 16), "limit"),
    ],
    ids=[
        "read",
        "write",
        "flash",
        "no memory",
        "twice",
        "ring of output",
        "ring",
        "alignment",
        "channels",
        "dimension",
    ],
)
def test_access_out_of_bounds_is_found(record: dict[str, int], values: dict[str, int], kind: str) -> None:
    program = Program()
    program.table(record, values)
    verdict = program.verdict()
    assert kind in [finding.kind for finding in verdict.findings]
    assert verdict.findings[0].message.startswith("instruction 1 vec.table")


def test_slot_must_be_loaded_before_it_is_used() -> None:
    program = Program()
    program.add("vec.copy", {**region(), "slot": 3})
    assert [finding.message for finding in program.verdict().findings] == [
        "instruction 0 vec.copy uses slot 3, which holds no descriptor"
    ]


def test_bytes_that_nothing_writes_are_not_read_and_outputs_are_written() -> None:
    program = Program()
    program.load(0x8000)
    program.table(layer(0, 0x1000), dma_in=1)
    io = (io_entry("x", "in", "int8", (255,), 0), io_entry("y", "out", "int8", (300,), 0x1000))
    findings = verify_program(program.container(io)).findings
    assert [finding.message for finding in findings] == [
        "instruction 2 vec.table reads sram 0xff..0xff, which nothing has written",
        "output y: nothing writes sram 0x1100..0x112b",
    ]


def test_debug_map_names_layers_and_sources() -> None:
    program = Program()
    program.load(0)
    program.table(layer(0, 0x1000))
    rows = [{"index": 2, "task": 0, "layer": "act", "sources": ["/block/Relu"]}]
    verdict = verify_program(program.container(), {"instructions": rows})
    assert verdict.races[0].message.startswith("instruction 2 vec.table (layer act, from /block/Relu) reads")


def test_declared_peak_must_fit_and_bounds_all_accesses() -> None:
    data = compile_for(conv_add_softmax()).program
    assert verify_program(data).ok
    assert next(finding.kind for finding in verify_program(data, sram_bytes=100).findings) == "range"


def test_bytes_that_are_no_program_are_refused() -> None:
    with pytest.raises(IsaError):
        verify_program(b"NPUC")
    program = Program()
    with pytest.raises(IsaError, match="unknown target"):
        verify_program(program.container(WHOLE_SRAM, target_name="other"))


def test_states_are_there_before_the_start_and_share_no_byte_with_inputs() -> None:
    program = Program()
    program.table(layer(0, 0x1000))
    for place, kinds in ((0x80, []), (0x7F, ["overlap"]), (0x81, ["uninitialized"])):
        io = (io_entry("x", "in", "int8", (0x80,), 0), io_entry("table", "in", "int8", (256,), 0x8000))
        states = encode_states([StateEntry(sram(place), bytes(0x80))])
        verdict = verify_program(program.container(io, state=states))
        assert [finding.kind for finding in verdict.findings] == kinds


def test_coded_weights_are_read_as_their_words_and_the_code_table() -> None:
    record = layer(0, 0x1000, scales=sram(0x4000), code_table=2)
    for target, raced_with in ((0x5007, True), (0x5008, False), (0x40A0, True), (0x40C0, False)):
        program = Program()
        conv = {"k": 0, "k_channels": 16, "weights": sram(0x5000), "coded_words": 1}
        program.add("mac.conv", {**region(), **conv}, record)
        program.load(target)
        assert bool(raced(program.verdict())) == raced_with
