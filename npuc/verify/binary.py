"""The program as the verifier sees it: instructions with their captured descriptors and their counts in the queues.

Calls of the Arm core are rows like instructions, behind them all: they have a queue and a count there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isa.arm_calls import ArmRange, decode_arm_calls
from isa.codec import Instruction, decode_all
from isa.container import Container, read_container
from isa.descriptors import Memory
from isa.errors import IsaError
from isa.fields import RecordSpec
from isa.instructions import InstructionSpec, Queue
from isa.record import WORD_BYTES, decode_record
from isa.target import Target
from isa.target_file import REQUIRED, TABLES, load_target, target_from_dict, target_names, target_to_dict
from npuc.verify.verdict import Finding, Names

ARM_CALL = InstructionSpec("arm.call", 0, Queue.ARM, 0, "A call of a kernel on the Arm core.", ())
"""What stands for the instruction of a call, which has none."""


@dataclass(frozen=True)
class Decoded:
    """One instruction or call; `number` counts from 1 within its queue, `layer` holds the fields of its descriptor.

    `ranges` are the bytes that a call touches.
    """

    index: int
    spec: InstructionSpec
    values: Mapping[str, int]
    conditions: tuple[tuple[Queue, int], ...]
    number: int
    layer: Mapping[str, int]
    ranges: tuple[ArmRange, ...] = ()

    @property
    def queue(self) -> Queue:
        """The queue that it is put into."""
        return self.spec.queue


@dataclass(frozen=True)
class Binary:
    """A decoded program, and what was wrong with its descriptors; `code` is the instructions, then the calls."""

    container: Container
    target: Target
    n_bytes: int
    code: tuple[Decoded, ...]
    findings: tuple[Finding, ...]

    @property
    def instructions(self) -> tuple[Decoded, ...]:
        """The code without the calls."""
        return tuple(item for item in self.code if item.queue != Queue.ARM)


def read_binary(data: bytes) -> Binary:
    """Decode a program; IsaError for bytes that are none and for an unknown target."""
    container = read_container(data)
    instructions = [instruction for _, instruction in decode_all(container.instructions)]
    target = _target(container)
    slots = _Slots(data, target.architecture.descriptor_slots, Names([i.mnemonic for i in instructions]))
    counts = dict.fromkeys(Queue, 0)
    code = []
    for index, instruction in enumerate(instructions):
        queue = instruction.spec.queue
        counts[queue] += 1
        layer = slots.step(index, instruction)
        code.append(
            Decoded(index, instruction.spec, instruction.values, instruction.conditions(), counts[queue], layer)
        )
    code += _calls(container, len(code))
    return Binary(container, target, len(data), tuple(code), tuple(slots.findings))


def _calls(container: Container, first: int) -> list[Decoded]:
    return [
        Decoded(first + i, ARM_CALL, {"kernel": call.kernel}, call.conditions, i + 1, {}, call.ranges)
        for i, call in enumerate(decode_arm_calls(container.arm_calls))
    ]


def _target(container: Container) -> Target:
    """The target whose tables the metadata holds, over those of the shipped target of that name."""
    name = container.target_name
    shipped = target_to_dict(load_target(name)) if name in target_names() else {}
    recorded = {table: container.metadata[table] for table in TABLES if table in container.metadata}
    tables = {**shipped, **recorded}
    if not tables.keys() >= REQUIRED.keys():
        raise IsaError(f"program is for the unknown target {name}, allowed: {', '.join(target_names())}")
    target = target_from_dict(name, tables, "program metadata")
    if target.fingerprint != container.fingerprint:
        raise IsaError(f"program has fingerprint {container.fingerprint}, target {name} has {target.fingerprint}")
    return target


class _Slots:
    """The descriptor table, replayed in program order: instructions capture what their slot holds at dispatch."""

    def __init__(self, data: bytes, n_slots: int, names: Names) -> None:
        self._data, self._n_slots, self._names = data, n_slots, names
        self._loaded: dict[int, bytes] = {}
        self._decoded: dict[tuple[str, bytes], Mapping[str, int]] = {}
        self.findings: list[Finding] = []

    def step(self, index: int, instruction: Instruction) -> Mapping[str, int]:
        """The descriptor that the instruction captures; empty when it captures none or that one is malformed."""
        values, record = instruction.values, instruction.spec.descriptor
        slot = values.get("slot", 0)
        if slot >= self._n_slots:
            self._report(index, f"uses slot {slot}, limit {self._n_slots - 1}")
        if instruction.mnemonic == "desc.load":
            self._load(index, slot, values["address"], values["words"] * WORD_BYTES)
        if record is None:
            return {}
        if slot not in self._loaded:
            self._report(index, f"uses slot {slot}, which holds no descriptor")
            return {}
        return self._decode(index, record, self._loaded[slot])

    def _load(self, index: int, slot: int, address: int, n_bytes: int) -> None:
        if address >> 30 != Memory.FLASH or address + n_bytes > len(self._data):
            self._report(index, f"loads {n_bytes} bytes from {address:#x}, allowed: flash below {len(self._data):#x}")
        elif address % WORD_BYTES:
            self._report(index, f"loads a descriptor from {address:#x}, allowed: multiples of {WORD_BYTES}")
        self._loaded[slot] = self._data[address : address + n_bytes] if address >> 30 == Memory.FLASH else b""

    def _decode(self, index: int, record: RecordSpec, data: bytes) -> Mapping[str, int]:
        key = (record.name, data)
        if key not in self._decoded:
            try:
                self._decoded[key] = decode_record(record, data)
            except IsaError as error:
                self._report(index, f"captures a malformed descriptor: {error}")
                self._decoded[key] = {}
        return self._decoded[key]

    def _report(self, index: int, text: str) -> None:
        self.findings.append(Finding("descriptor", f"{self._names.instruction(index)} {text}", (index,)))
