"""No instruction and no output reads a byte that nothing has written; inputs and states are there before the start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from isa.container import Container
from isa.state import decode_states
from npuc.verify.access import Access
from npuc.verify.byteset import Flags, Lattice, lattice
from npuc.verify.race import is_flash
from npuc.verify.verdict import Finding, Names, interval


class Resident(NamedTuple):
    """Bytes that the host knows; all but outputs have contents before the first instruction."""

    name: str
    bytes: Lattice
    is_output: bool


class WrittenBytes:
    """Which bytes of sram and dram are written, instruction by instruction in an order in which they may run."""

    def __init__(self, residents: Sequence[Resident], operands: Sequence[tuple[Access, ...]]) -> None:
        parts = [part for row in operands for access in row for part in access.parts]
        parts += [resident.bytes for resident in residents]
        self._flags: dict[int, Flags] = {}
        for memory in (1, 2):
            stop = max((part.stop for part in parts if part.start >> 30 == memory), default=memory << 30)
            self._flags[memory] = np.zeros(stop - (memory << 30), np.bool_)
        for resident in residents:
            if not resident.is_output:
                self._view(resident.bytes)[...] = True

    def step(self, index: int, operands: tuple[Access, ...], names: Names) -> Iterator[Finding]:
        """A finding for every read of unwritten bytes; then the instruction's own writes count."""
        for access in operands:
            for part in access.parts:
                if access.writes:
                    self._view(part)[...] = True
                elif not is_flash(part) and (missing := self._missing(part)):
                    message = f"{names.instruction(index)} reads {interval(missing)}, which nothing has written"
                    yield Finding("uninitialized", message, (index,), missing)

    def output(self, resident: Resident) -> Iterator[Finding]:
        """A finding when not all bytes of an output are written."""
        if missing := self._missing(resident.bytes):
            yield Finding("output", f"{resident.name}: nothing writes {interval(missing)}", (), missing)

    def _view(self, part: Lattice) -> Flags:
        memory = part.start >> 30
        return part.view(self._flags[memory], memory << 30)

    def _missing(self, part: Lattice) -> range:
        """The first run of addresses of the set that are not written, up to its next written one."""
        known = self._view(part)
        if known.all():
            return range(0)
        index = np.unravel_index(int(np.argmin(known)), known.shape)
        first = part.start + sum(int(i) * stride for i, stride in zip(index, part.strides, strict=True))
        flags = self._flags[first >> 30][first & ((1 << 30) - 1) : part.stop & ((1 << 30) - 1)]
        return range(first, first + (int(np.argmax(flags)) if flags.any() else len(flags)))


def resident(container: Container) -> list[Resident]:
    """Inputs, outputs and states of a program."""
    entries = [
        Resident(f"{entry.direction}put {entry.name}", _run(entry.address, entry.n_bytes), entry.direction == "out")
        for entry in container.io
    ]
    states = decode_states(container.state)
    return entries + [Resident(f"state {i}", _run(s.address, len(s.initial)), False) for i, s in enumerate(states)]


def _run(start: int, n_bytes: int) -> Lattice:
    return lattice(start, [(n_bytes, 1)])
