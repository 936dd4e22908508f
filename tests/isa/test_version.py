"""Version 1 of the instruction set is frozen: what tests/isa/version-1.0.txt lists keeps its place and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isa.container_format import CONTAINER_RECORDS, CONTAINER_VERSION, ISA_VERSION
from isa.descriptors import DESCRIPTORS, SCALES, ElementType, Memory
from isa.fields import RecordSpec
from isa.instructions import HEADER, INSTRUCTIONS
from isa.registers import REGISTERS, Fault

FROZEN = Path(__file__).with_name("version-1.0.txt")


def present() -> Iterator[str]:
    """A line for each thing that a program or a driver depends on."""
    yield f"isa {ISA_VERSION[0]}, container {CONTAINER_VERSION}"
    for enum in (ElementType, Memory, Fault):
        yield from (f"{enum.__name__} {item.name} = {item.value}" for item in enum)
    yield from (f"register {item.name} at {item.offset:#x}, {item.access}" for item in REGISTERS)
    for spec in INSTRUCTIONS:
        descriptor = spec.descriptor.name if spec.descriptor is not None else "none"
        yield f"{spec.mnemonic}: opcode {spec.opcode:#x}, queue {spec.queue.name}, descriptor {descriptor}"
    header = RecordSpec("instruction", "", 8, HEADER)
    for record in (*CONTAINER_RECORDS, *DESCRIPTORS, *SCALES, header, *(spec.record for spec in INSTRUCTIONS)):
        yield f"{record.name}: {record.length_bytes} bytes"
        bit = 0
        for field in record.fields:
            sign = "signed" if field.signed else "unsigned"
            yield f"{record.name}.{field.name}: bit {bit}, {field.bits} bits, {sign}, stored minus {field.bias}"
            bit += field.bits


def test_version_1_keeps_what_it_has() -> None:
    assert ISA_VERSION[0] == 1, "another major version needs a file of its own"
    lines = set(present())
    lost = [line for line in FROZEN.read_text(encoding="utf-8").splitlines() if line not in lines]
    assert not lost, f"programs of version 1.0 depend on: {lost}"


def test_what_is_added_raises_the_minor_version() -> None:
    frozen = FROZEN.read_text(encoding="utf-8").splitlines()
    added = [line for line in present() if line not in set(frozen)]
    assert ISA_VERSION > (1, 0) or not added, f"version 1.0 does not have: {added}"
