"""Small programs for tests: instructions with their descriptors, constants, and I/O entries, as a container."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isa.codec import Instruction, encode, encode_record
from isa.container import CONSTANTS_OFFSET, Container, IoEntry, descriptors_offset, write_container
from isa.descriptors import Memory, address
from isa.instructions import BY_MNEMONIC
from isa.target_file import load_target

SRAM_BYTES = 1 << 16


def sram(offset: int) -> int:
    return address(Memory.SRAM, offset)


def io_entry(name: str, direction: str, dtype: str, shape: tuple[int, ...], offset: int, **changes: Any) -> IoEntry:
    n_bytes = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4}[dtype]
    for length in shape:
        n_bytes *= length
    values = {"scale": 0.0, "zero_point": 0, "host_dtype": dtype, "half_even": True, **changes}
    return IoEntry(name, direction, dtype, shape, sram(offset), n_bytes=n_bytes, **values)


WHOLE_SRAM = (
    io_entry("sram", "in", "uint8", (SRAM_BYTES,), 0),
    io_entry("sram", "out", "uint8", (SRAM_BYTES,), 0),
)
"""Every byte of sram goes in and comes out, so that a comparison sees every stray write."""


@dataclass
class Assembly:
    """A program under construction; constants come first, so that their addresses are known at once."""

    target_name: str = "edge-256"
    constants: bytearray = field(default_factory=bytearray)
    rows: list[tuple[str, Mapping[str, int], Mapping[str, int] | None]] = field(default_factory=list)

    def constant(self, data: bytes) -> int:
        """Flash address of these bytes."""
        place = CONSTANTS_OFFSET + len(self.constants)
        self.constants += data
        return address(Memory.FLASH, place)

    def add(self, mnemonic: str, values: Mapping[str, int], descriptor: Mapping[str, int] | None = None) -> None:
        self.rows.append((mnemonic, values, descriptor))

    def container(self, io: Sequence[IoEntry] = WHOLE_SRAM, **changes: Any) -> bytes:
        code, descriptors = b"", b""
        first = descriptors_offset(len(self.constants))
        for i, (mnemonic, values, descriptor) in enumerate(self.rows):
            slot = {}
            if descriptor is not None:
                record = BY_MNEMONIC[mnemonic].descriptor
                assert record is not None
                data = encode_record(record, descriptor, trim=True)
                slot = {"slot": i % 32}
                load = {**slot, "words": len(data) // 8, "address": address(Memory.FLASH, first + len(descriptors))}
                code += encode(Instruction("desc.load", load))
                descriptors += data
            code += encode(Instruction(mnemonic, {**slot, **values}))
        code += encode(Instruction("end", {}))
        target = load_target(self.target_name)
        parts = {"target_name": target.name, "fingerprint": target.fingerprint, **changes}
        constants = bytes(self.constants)
        return write_container(
            Container(constants=constants, descriptors=descriptors, instructions=code, io=tuple(io), **parts)
        )
