"""Encodes and decodes instructions, one at a time or, vectorized, a whole program.

The encoding is canonical: what `isa/record.py` demands, and a zero count in every unused condition, so that equal
instructions have equal bytes and every accepted byte string decodes to one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from isa.errors import IsaError
from isa.fields import Field, RecordSpec
from isa.instructions import (
    BY_MNEMONIC,
    BY_OPCODE,
    CONDITIONS,
    HEADER,
    INSTRUCTIONS,
    NO_CONDITION,
    InstructionSpec,
    Queue,
)
from isa.record import WORD_BYTES, decode_record, encode_record

__all__ = [
    "DecodedProgram",
    "Instruction",
    "decode",
    "decode_all",
    "decode_program",
    "decode_record",
    "encode",
    "encode_record",
    "instruction_offsets",
    "is_condition",
    "spec_at",
]

Column: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

OPCODE_MASK = (1 << HEADER[0].bits) - 1

CONDITION_QUEUES = (*(queue.value for queue in Queue if queue is not Queue.FETCH), NO_CONDITION)
"""Values that the queue field of a condition may hold; FETCH retires nothing that could be waited for."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: the values of its fields by name, the opcode excepted.

    Conditions that are not given are unused (queue NO_CONDITION, count 0); every other field must be given.
    """

    mnemonic: str
    values: Mapping[str, int]

    def __post_init__(self) -> None:
        if self.mnemonic not in BY_MNEMONIC:
            raise IsaError(f"unknown instruction {self.mnemonic!r}, allowed: {', '.join(BY_MNEMONIC)}")
        left_out = (field for field in self.spec.record.fields if is_condition(field) or field.is_optional)
        unused = {field.name: _unused(field) for field in left_out}
        object.__setattr__(self, "values", {**unused, **self.values})

    @property
    def spec(self) -> InstructionSpec:
        return BY_MNEMONIC[self.mnemonic]

    def conditions(self) -> tuple[tuple[Queue, int], ...]:
        """(queue, count) of every condition that is used, those of a `wait` after those of the header."""
        names = [field.name for field in self.spec.record.fields if field.name.endswith("_queue")]
        pairs = ((self.values[name], self.values[f"{name.removesuffix('_queue')}_count"]) for name in names)
        return tuple((Queue(queue), count) for queue, count in pairs if queue != NO_CONDITION)


def encode(instruction: Instruction) -> bytes:
    """The instruction's bytes; IsaError for an unknown or missing field and for every value that does not fit."""
    spec = instruction.spec
    values = {**instruction.values, "opcode": spec.opcode}
    record = spec.record
    missing = [field.name for field in record.fields if field.name not in values]
    if missing:
        raise IsaError(f"{spec.mnemonic}: field {missing[0]} is missing")
    code = encode_record(record, values)
    _check_conditions(spec, values)
    return code


def decode(code: bytes, offset: int = 0) -> Instruction:
    """The instruction at byte `offset`; IsaError names the offset."""
    spec = spec_at(code, offset)
    try:
        values = decode_record(spec.record, code[offset : offset + spec.length_bytes])
        del values["opcode"]
        _check_conditions(spec, values)
    except IsaError as error:
        raise IsaError(f"instruction at byte {offset}: {error}") from None
    return Instruction(spec.mnemonic, values)


def decode_all(code: bytes) -> Iterator[tuple[int, Instruction]]:
    """(byte offset, instruction) one after the other, up to the last byte."""
    offset = 0
    while offset < len(code):
        instruction = decode(code, offset)
        yield offset, instruction
        offset += instruction.spec.length_bytes


def spec_at(code: bytes, offset: int) -> InstructionSpec:
    """The instruction whose opcode stands at `offset`; IsaError when it is unknown or its bytes are not all there."""
    if not 0 <= offset < len(code):
        raise IsaError(f"instruction at byte {offset}: outside the program of {len(code)} bytes")
    opcode = code[offset] & OPCODE_MASK
    spec = BY_OPCODE.get(opcode)
    if spec is None:
        raise IsaError(f"instruction at byte {offset}: unknown opcode {opcode:#04x}")
    if offset + spec.length_bytes > len(code):
        raise IsaError(
            f"instruction at byte {offset}: {spec.mnemonic} has {spec.length_bytes} bytes, got {len(code) - offset}"
        )
    return spec


def is_condition(field: Field) -> bool:
    """Whether the field is the queue or the count of a condition."""
    return field.name.endswith(("_queue", "_count"))


def _unused(field: Field) -> int:
    return NO_CONDITION if field.name.endswith("_queue") else 0


def _check_conditions(spec: InstructionSpec, values: Mapping[str, int]) -> None:
    for field in spec.record.fields:
        if not field.name.endswith("_queue"):
            continue
        queue, count = values[field.name], values[f"{field.name.removesuffix('_queue')}_count"]
        if queue not in CONDITION_QUEUES:
            raise IsaError(f"{spec.mnemonic}: {field.name} = {queue}, allowed: {', '.join(map(str, CONDITION_QUEUES))}")
        if queue == NO_CONDITION and count:
            raise IsaError(f"{spec.mnemonic}: count {count} of the unused condition {field.name}, allowed: 0")


@dataclass(frozen=True)
class DecodedProgram:
    """A program as columns over its n instructions, in program order.

    `fields` has one column for every field of any instruction, 0 where an instruction has no such field. The columns
    of conditions are [n, 3]; `more` are those of `wait`. The queue of an unused condition is NO_CONDITION.
    """

    offset: Column
    """Byte offset in the program."""
    opcode: Column
    queue: Column
    length: Column
    """Bytes of the instruction; the field `length` of a copy is `fields["length"]`."""
    wait_queue: Column
    wait_count: Column
    more_queue: Column
    more_count: Column
    fields: dict[str, Column]

    def __len__(self) -> int:
        return len(self.offset)


def decode_program(code: bytes) -> DecodedProgram:
    """All instructions of `code`; the same checks and messages as `decode`."""
    offsets = instruction_offsets(code)
    words: Words = np.frombuffer(code, dtype="<u8").astype(np.uint64)
    start = offsets // WORD_BYTES
    opcode: Column = (words[start] & np.uint64(OPCODE_MASK)).astype(np.int64)
    columns = {
        field.name: np.full(len(offsets), _unused(field) if is_condition(field) else 0, dtype=np.int64)
        for spec in INSTRUCTIONS
        for field in spec.record.fields
    }
    valid = np.ones(len(offsets), dtype=np.bool_)
    for layout, opcodes in _layouts().items():
        rows = np.flatnonzero(np.isin(opcode, opcodes))
        if len(rows):
            n_words = layout.length_bytes // WORD_BYTES
            valid[rows] = _extract(layout, words[start[rows][:, None] + np.arange(n_words)], rows, columns)
    if not valid.all():
        offset = int(offsets[np.argmin(valid)])
        decode(code, offset)
        raise IsaError(f"instruction at byte {offset}: not a legal encoding")
    conditions = {
        f"{kind}_{part}": np.stack([columns.pop(f"{kind}{i}_{part}") for i in range(CONDITIONS)], axis=1)
        for kind in ("wait", "more")
        for part in ("queue", "count")
    }
    del columns["opcode"]
    queue, length = _QUEUES[opcode], _LENGTHS[opcode]
    return DecodedProgram(offsets, opcode, queue, length, **conditions, fields=columns)


def instruction_offsets(code: bytes) -> Column:
    """Byte offset of every instruction; IsaError for an unknown opcode and for a last instruction that is cut off."""
    lengths = _LENGTHS[np.frombuffer(code, dtype=np.uint8)[::WORD_BYTES] & OPCODE_MASK].tolist()
    offsets = []
    offset = 0
    while offset < len(code):
        length = lengths[offset // WORD_BYTES]
        if not length or offset + length > len(code):
            spec_at(code, offset)
        offsets.append(offset)
        offset += length
    return np.array(offsets, dtype=np.int64)


def _by_opcode(values: Mapping[int, int]) -> Column:
    return np.array([values.get(opcode, 0) for opcode in range(OPCODE_MASK + 1)], dtype=np.int64)


_LENGTHS = _by_opcode({spec.opcode: spec.length_bytes for spec in INSTRUCTIONS})
_QUEUES = _by_opcode({spec.opcode: spec.queue for spec in INSTRUCTIONS})


@cache
def _layouts() -> dict[RecordSpec, list[int]]:
    """Opcodes by layout: instructions with the same fields are decoded together."""
    layouts: dict[RecordSpec, list[int]] = {}
    for spec in INSTRUCTIONS:
        layouts.setdefault(RecordSpec("", "", spec.length_bytes, spec.record.fields), []).append(spec.opcode)
    return layouts


def _extract(
    layout: RecordSpec, words: Words, rows: npt.NDArray[np.intp], columns: Mapping[str, Column]
) -> npt.NDArray[np.bool_]:
    """Put the fields of words [rows, words of an instruction] into the columns; which rows are legal encodings."""
    bit = 0
    valid = np.ones(len(rows), dtype=np.bool_)
    for field in layout.fields:
        columns[field.name][rows] = _bits(words, bit, field.bits, signed=field.signed) + field.bias
        if field.is_reserved:
            valid &= columns[field.name][rows] == 0
        elif field.name.endswith("_queue"):
            valid &= np.isin(columns[field.name][rows], CONDITION_QUEUES)
        elif field.name.endswith("_count"):
            queue = columns[f"{field.name.removesuffix('_count')}_queue"][rows]
            valid &= (queue != NO_CONDITION) | (columns[field.name][rows] == 0)
        bit += field.bits
    for word in range(bit // 64, words.shape[1]):
        valid &= words[:, word] >> np.uint64(max(bit - 64 * word, 0)) == 0
    return valid


def _bits(words: Words, bit: int, bits: int, *, signed: bool) -> Column:
    """Bits bit..bit+bits-1 of every row of words [n, words]; at most 32 bits."""
    word, shift = divmod(bit, 64)
    value = words[:, word] >> np.uint64(shift)
    if shift + bits > 64:
        value = value | words[:, word + 1] << np.uint64(64 - shift)
    column: Column = (value & np.uint64((1 << bits) - 1)).astype(np.int64)
    return column - ((column >> (bits - 1)) << bits) if signed else column
