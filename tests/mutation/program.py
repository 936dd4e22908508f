"""A program as something to edit: instructions, descriptors of their own for every load, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from isa.codec import Instruction, decode_all, encode
from isa.container import Container, descriptors_offset, read_container, write_container
from isa.fields import RecordSpec
from isa.instructions import NO_CONDITION
from isa.record import WORD_BYTES, decode_record, encode_record

Change = Mapping[int, Mapping[str, int]]
"""New values of fields, by place: an instruction, or behind the last instruction an input or output."""


@dataclass(frozen=True)
class Editable:
    """`layers`: the fields of the descriptor that a `desc.load` loads, where an instruction captures it."""

    container: Container
    code: tuple[Instruction, ...]
    layers: Mapping[int, tuple[RecordSpec, Mapping[str, int]]]
    loaded: tuple[int, ...]
    """By instruction: the `desc.load` whose descriptor it captures; -1: none."""

    def captured(self) -> Iterator[tuple[Instruction, Mapping[str, int]]]:
        """Every instruction with the fields of the descriptor that it captures."""
        for instruction, load in zip(self.code, self.loaded, strict=True):
            yield instruction, self.layers[load][1] if load >= 0 else {}

    def fields(self, place: int) -> Mapping[str, int]:
        """The fields that a change may name: of an instruction, of a loaded descriptor, or the address of an entry."""
        if place >= len(self.code):
            return {"address": self.container.io[place - len(self.code)].address}
        return self.layers[place][1] if place in self.layers else self.code[place].values

    def changed(self, change: Change) -> bytes:
        """The program with other values. Changed descriptors are put behind the others."""
        code, descriptors = list(self.code), self.container.descriptors
        io = list(self.container.io)
        for place, values in change.items():
            if place >= len(code):
                io[place - len(code)] = replace(io[place - len(code)], address=values["address"])
            elif place in self.layers:
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
        return write_container(
            replace(self.container, instructions=instructions, descriptors=descriptors, io=tuple(io))
        )

    def conditions(self) -> Iterator[tuple[int, str, int, int]]:
        """(instruction, name of the condition, queue, count) of every condition."""
        for index, instruction in enumerate(self.code):
            for name, queue in instruction.values.items():
                if name.endswith("_queue") and queue != NO_CONDITION:
                    kind = name.removesuffix("_queue")
                    yield index, kind, queue, instruction.values[f"{kind}_count"]


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
    return Editable(container, code, layers, tuple(loaded))
