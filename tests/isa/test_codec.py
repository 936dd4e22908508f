"""Every instruction and descriptor survives encoding; whatever does not fit is refused."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.codec import CONDITION_QUEUES, Instruction, decode, decode_all, decode_program, encode, is_condition
from isa.container_format import CONTAINER_HEADER, IO_ENTRY, IO_HEADER, SECTION_ENTRY
from isa.descriptors import DESCRIPTORS, LAYER, SCALE, SCALES
from isa.errors import IsaError
from isa.fields import Field, RecordSpec
from isa.instructions import BY_MNEMONIC, HEADER, INSTRUCTIONS, NO_CONDITION, InstructionSpec, Queue
from isa.record import decode_record, encode_record
from tests.isa.strategies import instructions, record_values

RECORDS = (*DESCRIPTORS, *SCALES, CONTAINER_HEADER, SECTION_ENTRY, IO_HEADER, IO_ENTRY)

every_instruction = pytest.mark.parametrize("spec", INSTRUCTIONS, ids=lambda spec: spec.mnemonic)
every_record = pytest.mark.parametrize("spec", RECORDS, ids=lambda spec: spec.name)


def lowest(spec: InstructionSpec) -> dict[str, int]:
    return {field.name: field.low for field in spec.fields if not is_condition(field)}


def list_decode(code: bytes) -> object:
    return list(decode_all(code))


@pytest.mark.parametrize("record", [*RECORDS, *(spec.record for spec in INSTRUCTIONS)], ids=lambda spec: spec.name)
def test_fields_fit_the_length_of_their_record(record: RecordSpec) -> None:
    assert sum(field.bits for field in record.fields) <= 8 * record.length_bytes
    assert len({field.name for field in record.fields}) == len(record.fields)


def test_opcodes_are_unique_and_instructions_are_whole_words() -> None:
    assert len({spec.opcode for spec in INSTRUCTIONS}) == len(INSTRUCTIONS)
    assert all(spec.length_bytes % 8 == 0 for spec in INSTRUCTIONS)


@every_instruction
@given(data=st.data())
def test_instructions_round_trip(spec: InstructionSpec, data: st.DataObject) -> None:
    instruction = data.draw(instructions(spec))
    code = encode(instruction)
    assert len(code) == spec.length_bytes
    assert decode(b"\xff" * 8 + code, 8) == instruction


@every_record
@given(data=st.data())
def test_records_round_trip(spec: RecordSpec, data: st.DataObject) -> None:
    values = data.draw(record_values(spec))
    assert decode_record(spec, encode_record(spec, values)) == values
    trimmed = encode_record(spec, values, trim=True)
    assert len(trimmed) % 8 == 0
    assert any(trimmed[-8:]) or len(trimmed) == 8
    assert decode_record(spec, trimmed) == values


def test_a_record_without_values_is_one_zero_word_when_trimmed() -> None:
    assert encode_record(LAYER, {}, trim=True) == bytes(8)
    assert decode_record(LAYER, b"")["kernel_h"] == 1


@every_instruction
def test_a_value_outside_its_field_is_refused(spec: InstructionSpec) -> None:
    for field in spec.fields:
        for value in (field.low - 1, field.high + 1):
            with pytest.raises(IsaError, match=f"{spec.mnemonic}: {field.name} = {value}, allowed: "):
                encode(Instruction(spec.mnemonic, {**lowest(spec), field.name: value}))


@every_record
def test_a_value_outside_its_record_field_is_refused(spec: RecordSpec) -> None:
    for field in spec.fields:
        for value in (field.low - 1, field.high + 1):
            with pytest.raises(IsaError, match=field.name):
                encode_record(spec, {field.name: value})


def test_negative_and_biased_fields_are_stored_as_documented() -> None:
    spec = RecordSpec("r", "", 2, (Field("a", 4, "", bias=1), Field("b", 5, "", signed=True)))
    assert encode_record(spec, {"a": 16, "b": -1}) == b"\xff\x01"
    assert encode_record(spec, {}) == b"\0\0"


def test_missing_and_unknown_fields_are_refused() -> None:
    with pytest.raises(IsaError, match=r"desc.load: field slot is missing"):
        encode(Instruction("desc.load", {"words": 1, "address": 0}))
    with pytest.raises(IsaError, match="end: unknown field 'slot'"):
        encode(Instruction("end", {"slot": 1}))
    with pytest.raises(IsaError, match=r"unknown instruction 'mac.sing', allowed: end, "):
        Instruction("mac.sing", {})


def test_conditions_that_are_not_given_are_unused() -> None:
    assert Instruction("end", {}).conditions() == ()
    one = Instruction("end", {"wait0_queue": Queue.MAC, "wait0_count": 3})
    assert decode(encode(one)).conditions() == ((Queue.MAC, 3),)


@pytest.mark.parametrize("queue", sorted(set(range(8)) - set(CONDITION_QUEUES)))
def test_a_condition_on_a_queue_without_counter_is_refused(queue: int) -> None:
    with pytest.raises(IsaError, match=f"wait0_queue = {queue}, allowed: 0, 1, 2, 3, 4, 7"):
        encode(Instruction("end", {"wait0_queue": queue}))


def test_the_count_of_an_unused_condition_is_zero() -> None:
    with pytest.raises(IsaError, match="count 5 of the unused condition wait1_queue"):
        encode(Instruction("end", {"wait1_count": 5}))


@given(st.lists(instructions(), max_size=30))
def test_the_vectorized_decoder_agrees_with_the_single_one(program: list[Instruction]) -> None:
    decoded = decode_program(b"".join(map(encode, program)))
    assert len(decoded) == len(program)
    for i, instruction in enumerate(program):
        spec = instruction.spec
        assert (decoded.opcode[i], decoded.queue[i], decoded.length[i]) == (spec.opcode, spec.queue, spec.length_bytes)
        for field in spec.fields:
            if not is_condition(field):
                assert decoded.fields[field.name][i] == instruction.values[field.name]
        for name, column in decoded.fields.items():
            assert column[i] == 0 or name in instruction.values
        for kind, queues, counts in (
            ("wait", decoded.wait_queue, decoded.wait_count),
            ("more", decoded.more_queue, decoded.more_count),
        ):
            for k in range(3):
                assert queues[i, k] == instruction.values.get(f"{kind}{k}_queue", NO_CONDITION)
                assert counts[i, k] == instruction.values.get(f"{kind}{k}_count", 0)
    assert decoded.offset.dtype == np.int64


END = encode(Instruction("end", {}))
DAMAGED = {
    "unknown opcode": (END + bytes(8), "instruction at byte 8: unknown opcode 0x00"),
    "cut": (END + END[:5], "instruction at byte 8: end has 8 bytes, got 5"),
    "count": (END + END[:2] + b"\xff" + END[3:], "instruction at byte 8: end: count"),
    "behind the last field": (
        encode(Instruction("vec.add", lowest(BY_MNEMONIC["vec.add"])))[:-1] + b"\1",
        "instruction at byte 0: vec.add: bits behind the last field are set",
    ),
}


@pytest.mark.parametrize("decoder", [list_decode, decode_program], ids=["single", "vectorized"])
@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_code_is_refused_with_its_offset(decoder: Callable[[bytes], object], case: str) -> None:
    code, message = DAMAGED[case]
    with pytest.raises(IsaError, match=message):
        decoder(code)


@given(st.binary(max_size=200))
def test_random_bytes_decode_alike_or_raise_the_same(code: bytes) -> None:
    outcomes = []
    for decoder in (list_decode, decode_program):
        try:
            decoder(code)
            outcomes.append("")
        except IsaError as error:
            outcomes.append(str(error))
    # The vectorized decoder finds all lengths first, so that a program with two faults may name the other one.
    assert bool(outcomes[0]) == bool(outcomes[1])


def test_reserved_fields_are_zero() -> None:
    record = bytearray(encode_record(SCALE, {}))
    record[-1] = 1
    with pytest.raises(IsaError, match="scale: reserved = 0x1, allowed: 0"):
        decode_record(SCALE, bytes(record))
    with pytest.raises(IsaError, match="scale: unknown field 'reserved'"):
        encode_record(SCALE, {"reserved": 0})


def test_the_header_of_an_instruction_is_one_word() -> None:
    assert sum(field.bits for field in HEADER) == 64
