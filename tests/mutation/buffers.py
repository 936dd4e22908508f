"""The buffers of a program, found by following bytes from their writers to their readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isa.descriptors import Memory, split_address
from npuc.verify.access import accesses
from npuc.verify.binary import read_binary
from npuc.verify.byteset import Lattice, lattice
from tests.mutation.program import Editable

FIELDS = {"ofm": "ofm_base", "ifm": "ifm_base", "ifm2": "ifm2_base"}
"""Field of the address of an operand, where it is not named like the operand."""

IN_INSTRUCTION = ("source", "destination", "weights")

Place = tuple[int, str]
"""Where an address stands: an instruction, a `desc.load` or an input or output, and the field."""


@dataclass(frozen=True)
class Use:
    """One access of an instruction; inputs are written at -1, outputs are read behind the last instruction."""

    index: int
    place: Place
    writes: bool
    parts: tuple[Lattice, ...]


@dataclass(frozen=True)
class Buffer:
    """Addresses that belong together; bytes of sram from `start` to `stop`, instructions from `first` to `last`."""

    places: tuple[Place, ...]
    start: int
    stop: int
    first: int
    last: int

    def meets(self, other: Buffer, shift: int = 0) -> bool:
        """Whether the two would share bytes while both are in use, this one moved by `shift`."""
        return self.start + shift < other.stop and other.start < self.stop + shift and self.lives_with(other)

    def lives_with(self, other: Buffer) -> bool:
        """Whether both are in use at some time."""
        return self.first <= other.last and other.first <= self.last


def buffers(program: Editable, data: bytes) -> list[Buffer]:
    """All buffers in sram, in the order of their first use."""
    uses = list(_uses(program, data))
    owner = {use.place: use.place for use in uses}

    def find(place: Place) -> Place:
        while owner[place] != place:
            place = owner[place]
        return place

    for first, second in _links(uses):
        owner[find(first)] = find(second)
    groups: dict[Place, list[Use]] = {}
    for use in uses:
        groups.setdefault(find(use.place), []).append(use)
    return [_buffer(group) for group in groups.values()]


def _buffer(uses: Sequence[Use]) -> Buffer:
    parts = [part for use in uses for part in use.parts]
    return Buffer(
        tuple(sorted({use.place for use in uses})),
        min(part.start for part in parts) & ((1 << 30) - 1),
        max(part.stop for part in parts) & ((1 << 30) - 1),
        min(use.index for use in uses),
        max(use.index for use in uses),
    )


def _uses(program: Editable, data: bytes) -> Iterator[Use]:
    entries = [(len(program.code) + i, entry) for i, entry in enumerate(program.container.io)]
    for place, entry in entries:
        if entry.direction == "in":
            yield Use(-1, (place, "address"), True, (lattice(entry.address, [(entry.n_bytes, 1)]),))
    for decoded in read_binary(data).code:
        for access in accesses(decoded):
            parts = tuple(part for part in access.parts if split_address(part.start)[0] is Memory.SRAM)
            if parts:
                yield Use(decoded.index, _place(program, decoded.index, access.role), access.writes, parts)
    for place, entry in entries:
        if entry.direction == "out":
            parts = (lattice(entry.address, [(entry.n_bytes, 1)]),)
            yield Use(len(program.code), (place, "address"), False, parts)


def _place(program: Editable, index: int, role: str) -> Place:
    if role in IN_INSTRUCTION:
        return index, role
    return program.loaded[index], FIELDS.get(role, "scales" if role == "code table" else role)


def _links(uses: Sequence[Use]) -> Iterator[tuple[Place, Place]]:
    """Places whose addresses must change together: a reader's and those of the writers of what it reads."""
    stop = max(part.stop for use in uses for part in use.parts) & ((1 << 30) - 1)
    writer = np.full(stop, -1, np.int64)
    places = [use.place for use in uses]
    for number, use in enumerate(uses):
        for part in use.parts:
            view = _view(part, writer)
            if use.writes:
                view[...] = number
            else:
                yield from ((use.place, places[i]) for i in np.unique(view).tolist() if i >= 0)


def _view(part: Lattice, array: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    strides = tuple(stride * array.itemsize for stride in part.strides)
    return np.ndarray(part.shape, array.dtype, array, (part.start & ((1 << 30) - 1)) * array.itemsize, strides)
