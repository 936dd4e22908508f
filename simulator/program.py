"""Loading: the container, one vectorized decode, the descriptor that every instruction captures, and the Arm calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from isa.arm_calls import ArmCall, decode_arm_calls
from isa.codec import DecodedProgram, decode_program
from isa.container import Container, read_container
from isa.descriptors import DESCRIPTORS, Memory, split_address
from isa.errors import IsaError
from isa.fields import RecordSpec
from isa.instructions import BY_MNEMONIC, BY_OPCODE, InstructionSpec, Queue
from isa.record import WORD_BYTES, decode_record
from isa.target import Target
from isa.target_file import REQUIRED, TABLES, load_target, target_from_dict, target_names, target_to_dict
from simulator.errors import SimulatorFault, Site, call_site, instruction_site
from simulator.memory import Bytes

Column = npt.NDArray[np.int64]

_LOAD = BY_MNEMONIC["desc.load"].opcode
_RECORD_OF = np.array(
    [DESCRIPTORS.index(spec.descriptor) if spec and spec.descriptor else -1 for spec in map(BY_OPCODE.get, range(128))]
)


@dataclass(frozen=True)
class Program:
    """A loaded program. Its *rows* are the instructions in program order, then the Arm calls, numbered through."""

    container: Container
    target: Target
    flash: Bytes
    """All bytes of the container."""
    code: DecodedProgram
    descriptors: tuple[dict[str, int], ...]
    """Distinct descriptors that instructions capture."""
    captured: Column
    """[instructions]: index into `descriptors`; -1 for instructions that capture none."""
    calls: tuple[ArmCall, ...] = ()

    @property
    def n_rows(self) -> int:
        """Instructions and calls."""
        return len(self.code) + len(self.calls)

    @cached_property
    def queue(self) -> Column:
        """[rows]: the queue of each."""
        return np.concatenate([self.code.queue, np.full(len(self.calls), Queue.ARM, np.int64)])

    def call(self, row: int) -> ArmCall | None:
        """The Arm call of a row; None when the row is an instruction."""
        return self.calls[row - len(self.code)] if row >= len(self.code) else None

    def site(self, row: int, layers: Mapping[int, str] | None = None) -> Site:
        """What messages call a row; `layers` names layers by row."""
        layer, call = (layers or {}).get(row, ""), self.call(row)
        if call is not None:
            return call_site(row - len(self.code), call.kernel, layer)
        return instruction_site(row, self.spec(row).mnemonic, layer)

    def spec(self, index: int) -> InstructionSpec:
        """The table row of an instruction."""
        return BY_OPCODE[int(self.code.opcode[index])]

    def values(self, index: int) -> dict[str, int]:
        """The fields of an instruction, header excepted."""
        return {field.name: int(self.code.fields[field.name][index]) for field in self.spec(index).fields}

    def descriptor(self, index: int) -> dict[str, int]:
        """The descriptor that an instruction captures; empty when it captures none."""
        captured = int(self.captured[index])
        return self.descriptors[captured] if captured >= 0 else {}

    @cached_property
    def columns(self) -> dict[str, Column]:
        """What `isa.timing` reads: opcodes, conditions, and every field of instructions and of captured descriptors."""
        columns = {"opcode": self.code.opcode, **self.code.fields}
        for kind in ("wait", "more"):
            for part in ("queue", "count"):
                conditions: Column = getattr(self.code, f"{kind}_{part}")
                columns |= {f"{kind}{i}_{part}": column for i, column in enumerate(conditions.T)}
        for record in DESCRIPTORS:
            for field in record.fields:
                known = np.array([descriptor.get(field.name, 0) for descriptor in self.descriptors] + [0], np.int64)
                columns[field.name] = known[self.captured]
        return columns


def load(data: bytes) -> Program:
    """Read a program; IsaError for bytes that are no program, SimulatorFault for one that no machine could run."""
    container = read_container(data)
    code = decode_program(container.instructions)
    _check(code)
    flash = np.frombuffer(data, np.uint8)
    descriptors, captured = _replay(code, data)
    calls = decode_arm_calls(container.arm_calls)
    return Program(container, program_target(container), flash, code, descriptors, captured, calls)


def program_target(container: Container) -> Target:
    """The target that a program was compiled for: the tables in its metadata over those of the shipped target.

    SimulatorFault when no such target is known or its fingerprint is not the program's.
    """
    name, metadata = container.target_name, container.metadata
    shipped = target_to_dict(load_target(name)) if name in target_names() else {}
    tables = {**shipped, **{table: metadata[table] for table in TABLES if table in metadata}}
    if not tables.keys() >= REQUIRED.keys():
        raise SimulatorFault(
            f"program is for target {name}, which is not known here; known: {', '.join(target_names())}",
            "compile it again, or keep the target's tables in its metadata",
        )
    target = target_from_dict(name, tables, "program metadata")
    if target.fingerprint != container.fingerprint:
        raise SimulatorFault(
            f"program has fingerprint {container.fingerprint}, target {name} has {target.fingerprint}",
            f"compile it again for this version of {name}",
        )
    return target


def _check(code: DecodedProgram) -> None:
    ends = np.flatnonzero(code.opcode == BY_MNEMONIC["end"].opcode)
    if len(ends) != 1 or ends[0] != len(code) - 1:
        raise SimulatorFault(f"program of {len(code)} instructions has {len(ends)} end, allowed: one, at its end")


def _replay(code: DecodedProgram, data: bytes) -> tuple[tuple[dict[str, int], ...], Column]:
    """Distinct descriptors, and the index of the one that each instruction captures."""
    record = _RECORD_OF[code.opcode]
    source = np.full(len(code), -1, np.int64)
    for slot in np.unique(code.fields["slot"]):
        in_slot = code.fields["slot"] == slot
        loads = np.flatnonzero(in_slot & (code.opcode == _LOAD))
        users = np.flatnonzero(in_slot & (record >= 0))
        before = np.searchsorted(loads, users) - 1
        if (before < 0).any():
            site = _site(code, int(users[np.argmin(before)]))
            raise site.fault(f"uses slot {slot}, which holds no descriptor", "load one before it")
        if len(users):
            source[users] = loads[before]
    users = np.flatnonzero(record >= 0)
    place = source[users]
    keys = np.stack([code.fields["address"][place], code.fields["words"][place], record[users]], axis=1)
    distinct, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    captured = np.full(len(code), -1, np.int64)
    captured[users] = inverse.reshape(-1)
    descriptors = tuple(
        _descriptor(data, _site(code, int(place[row])), DESCRIPTORS[kind], address, words)
        for row, (address, words, kind) in zip(first, distinct.tolist(), strict=True)
    )
    return descriptors, captured


def _descriptor(data: bytes, site: Site, record: RecordSpec, address: int, words: int) -> dict[str, int]:
    length = words * WORD_BYTES
    try:
        memory, offset = split_address(address)
    except ValueError:
        memory, offset = Memory.SRAM, 0
    if memory is not Memory.FLASH or offset + length > len(data):
        raise site.fault(f"loads {length} bytes from {address:#010x}, allowed: inside the {len(data)} bytes of flash")
    try:
        return decode_record(record, data[offset : offset + length])
    except IsaError as error:
        raise site.fault(f"loads a malformed descriptor from {address:#010x}: {error}") from None


def _site(code: DecodedProgram, index: int) -> Site:
    return instruction_site(index, BY_OPCODE[int(code.opcode[index])].mnemonic)
