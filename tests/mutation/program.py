"""A program as something to edit: instructions, descriptors of their own for every load, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from isa.arm_calls import ArmCall, decode_arm_calls, encode_arm_calls
from isa.codec import Instruction, decode_all, encode
from isa.container import Container, descriptors_offset, read_container, write_container
from isa.fields import RecordSpec
from isa.instructions import NO_CONDITION, Queue
from isa.record import WORD_BYTES, decode_record, encode_record

Change = Mapping[int, Mapping[str, int]]
"""New values of fields, by place: an instruction, behind the last instruction an input or output, then an Arm call."""

Conditions = tuple[tuple[Queue, int], ...]


@dataclass(frozen=True)
class Editable:
    """`layers`: the fields of the descriptor that a `desc.load` loads, where an instruction captures it."""

    container: Container
    code: tuple[Instruction, ...]
    layers: Mapping[int, tuple[RecordSpec, Mapping[str, int]]]
    loaded: tuple[int, ...]
    """By instruction: the `desc.load` whose descriptor it captures; -1: none."""
    calls: tuple[ArmCall, ...]

    @property
    def first_call(self) -> int:
        """Place of the first call."""
        return len(self.code) + len(self.container.io)

    def order(self) -> Iterator[Instruction | ArmCall]:
        """Instructions in program order, each call as soon as its conditions hold; counts below 2^15 only."""
        retired, pending = dict.fromkeys(Queue, 0), list(self.calls)
        for instruction in self.code:
            while pending and all(retired[queue] >= count for queue, count in pending[0].conditions):
                yield pending.pop(0)
            yield instruction
            retired[instruction.spec.queue] += 1
        yield from pending

    def captured(self) -> Iterator[tuple[Instruction, Mapping[str, int]]]:
        """Every instruction with the fields of the descriptor that it captures."""
        for instruction, load in zip(self.code, self.loaded, strict=True):
            yield instruction, self.layers[load][1] if load >= 0 else {}

    def fields(self, place: int) -> Mapping[str, int]:
        """The fields that a change may name: of an instruction, of a loaded descriptor, or the address of an entry."""
        if place >= self.first_call:
            conditions = enumerate(self.calls[place - self.first_call].conditions)
            return {f"wait{i}_{name}": int(value) for i, pair in conditions
                    for name, value in zip(("queue", "count"), pair, strict=True)}  # fmt: skip
        if place >= len(self.code):
            return {"address": self.container.io[place - len(self.code)].address}
        return self.layers[place][1] if place in self.layers else self.code[place].values

    def changed(self, change: Change) -> bytes:
        """The program with other values. Changed descriptors are put behind the others."""
        code, descriptors = list(self.code), self.container.descriptors
        io, calls = list(self.container.io), list(self.calls)
        for place, values in change.items():
            if place >= self.first_call:
                call = calls[place - self.first_call]
                calls[place - self.first_call] = replace(call, conditions=_conditions({**self.fields(place), **values}))
            elif place >= len(code):
                io[place - len(code)] = replace(io[place - len(code)], address=values["address"])
            elif place in self.layers and values.keys() <= self.layers[place][1].keys():
                record, fields = self.layers[place]
                address = descriptors_offset(len(self.container.constants)) + len(descriptors)
                descriptor = encode_record(record, {**fields, **values})
                descriptor += bytes(-len(descriptor) % WORD_BYTES)
                descriptors += descriptor
                load = {"address": address, "words": len(descriptor) // WORD_BYTES}
                code[place] = Instruction("desc.load", {**code[place].values, **load})
            else:
                code[place] = Instruction(code[place].mnemonic, {**code[place].values, **values})
        instructions = b"".join(map(encode, code))
        return write_container(replace(
            self.container, instructions=instructions, descriptors=descriptors, io=tuple(io),
            arm_calls=encode_arm_calls(calls),
        ))  # fmt: skip

    def conditions(self) -> Iterator[tuple[int, str, int, int]]:
        """(place, name of the condition, queue, count) of every condition."""
        for place in (*range(len(self.code)), *range(self.first_call, self.first_call + len(self.calls))):
            fields = self.code[place].values if place < len(self.code) else self.fields(place)
            for name, queue in fields.items():
                if name.endswith("_queue") and queue != NO_CONDITION:
                    kind = name.removesuffix("_queue")
                    yield place, kind, queue, fields[f"{kind}_count"]


def _conditions(fields: Mapping[str, int]) -> Conditions:
    pairs = [(fields[f"wait{i}_queue"], fields[f"wait{i}_count"]) for i in range(len(fields) // 2)]
    return tuple((Queue(queue), count) for queue, count in pairs if queue != NO_CONDITION)


def editable(data: bytes) -> Editable:
    """Decode a program."""
    container = read_container(data)
    code = tuple(instruction for _, instruction in decode_all(container.instructions))
    slots: dict[int, int] = {}
    layers: dict[int, tuple[RecordSpec, Mapping[str, int]]] = {}
    loaded = []
    for index, instruction in enumerate(code):
        values, record = instruction.values, instruction.spec.descriptor
        if instruction.mnemonic == "desc.load":
            slots[values["slot"]] = index
        loaded.append(slots[values["slot"]] if record else -1)
        if record and loaded[-1] not in layers:
            load = code[loaded[-1]].values
            stored = data[load["address"] : load["address"] + WORD_BYTES * load["words"]]
            layers[loaded[-1]] = record, decode_record(record, stored)
    return Editable(container, code, layers, tuple(loaded), decode_arm_calls(container.arm_calls))
