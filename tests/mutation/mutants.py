"""Wrong programs: conditions that lack or wait too little, buffers that overlap, that are swapped, rings too short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isa.instructions import NO_CONDITION, Queue
from tests.mutation.buffers import Buffer, buffers
from tests.mutation.program import Change, Editable, editable

SHIFTS = (-32, -16, 16, 32)
MAX_SWAPS = 120
MAX_MUTANTS = 400


@dataclass(frozen=True)
class Mutant:
    """`kind` is `drop`, `weaken`, `shift`, `swap` or `ring`; `change` is what to change in the program."""

    kind: str
    name: str
    change: Change


def mutants(data: bytes, limit: int = MAX_MUTANTS) -> list[Mutant]:
    """The mutants of a program; when there are more than `limit`, so many of them, always the same."""
    found = list(_all(data))
    order = np.random.default_rng(len(found)).permutation(len(found))[:limit]
    return [found[i] for i in sorted(order.tolist())]


def _all(data: bytes) -> Iterator[Mutant]:
    program = editable(data)
    yield from _impatient(program)
    if program.calls:
        return  # parameters of kernels hold addresses that nobody can follow
    found = buffers(program, data)
    for buffer in found:
        others = [other for other in found if other is not buffer]
        for shift in SHIFTS:
            if buffer.start + shift >= 0 and any(buffer.meets(other, shift) for other in others):
                yield Mutant("shift", f"{_name(buffer)} by {shift}", _moved(program, (buffer, shift)))
    pairs = [(a, b) for a, b in combinations(found, 2) if a.lives_with(b) and a.start != b.start]
    order = np.random.default_rng(len(pairs)).permutation(len(pairs))[:MAX_SWAPS]
    for a, b in (pairs[i] for i in sorted(order.tolist())):
        change = _moved(program, (a, b.start - a.start), (b, a.start - b.start))
        yield Mutant("swap", f"{_name(a)} and {_name(b)}", change)
    yield from _shorter_rings(program, found)


def _impatient(program: Editable) -> Iterator[Mutant]:
    """Every condition is left out, and waits for one instruction less."""
    for index, kind, queue, count in program.conditions():
        call = index - program.first_call
        row = f"call {call}" if call >= 0 else f"{index} {program.code[index].mnemonic}"
        name = f"{row} {Queue(queue).name.lower()}>={count}"
        yield Mutant("drop", name, {index: {f"{kind}_queue": NO_CONDITION, f"{kind}_count": 0}})
        if count > 1:
            yield Mutant("weaken", f"{name}-1", {index: {f"{kind}_count": count - 1}})


def _name(buffer: Buffer) -> str:
    return f"{buffer.start:#x}..{buffer.stop - 1:#x} of {buffer.first}..{buffer.last}"


def _moved(program: Editable, *moves: tuple[Buffer, int]) -> Change:
    change: dict[int, dict[str, int]] = {}
    for buffer, shift in moves:
        for place, field in buffer.places:
            change.setdefault(place, {})[field] = program.fields(place)[field] + shift
    return change


def _shorter_rings(program: Editable, found: list[Buffer]) -> Iterator[Mutant]:
    """A line buffer with one row less, for all that use it."""
    for buffer in found:
        change: dict[int, dict[str, int]] = {}
        for place, field in buffer.places:
            ring = field.replace("_base", "_ring")
            rows = program.fields(place).get(ring, 0) if field.endswith("_base") else 0
            if rows > 1:
                change.setdefault(place, {})[ring] = rows - 1
        if change:
            yield Mutant("ring", f"{_name(buffer)} by a row", change)
