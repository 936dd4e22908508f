"""Which tensor each row writes, as strict mode tells tensors apart: by descriptors, and by what calls write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from isa.arm_calls import ArmCall, ArmRange
from simulator.program import Column, Program


def tensors(program: Program, n_given: int) -> Column:
    """By row, then by input: which tensor it writes; copies one each, numbered below zero."""
    known: dict[tuple[object, ...], int] = {}
    found = [_tensor(program, index, known) for index in range(len(program.code))]
    found += [len(known) + group for group in _groups(program.calls)]
    first = max([-1, *found]) + 1
    return np.array([*found, *range(first, first + n_given)], np.int64)


def _tensor(program: Program, index: int, known: dict[tuple[object, ...], int]) -> int:
    layer = program.descriptor(index)
    if "ofm_base" not in layer:
        return -2 - index
    place = (value for name, value in layer.items() if name.startswith("ofm_"))
    return known.setdefault((program.spec(index).mnemonic, layer["scales"], *place), len(known))


def _groups(calls: Sequence[ArmCall]) -> Iterator[int]:
    """Calls that write over each other what none of them reads make one tensor: a fill, then what is inside."""
    group, written = 0, list[ArmRange]()
    for call in calls:
        writes = [item for item in call.ranges if item.is_written]
        reads = [item for item in call.ranges if not item.is_written]
        if not _meet(writes, written) or _meet(reads, written):
            group, written = group + 1, []
        written += writes
        yield group


def _meet(first: Sequence[ArmRange], second: Sequence[ArmRange]) -> bool:
    return any(a.address < b.address + b.n_bytes and b.address < a.address + a.n_bytes for a in first for b in second)
