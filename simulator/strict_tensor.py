"""Which tensor each row writes, as strict mode tells tensors apart: by descriptors; every call a tensor of its own."""

from __future__ import annotations

import numpy as np

from simulator.program import Column, Program


def tensors(program: Program, n_given: int) -> Column:
    """By row, then by input: which tensor it writes; copies one each, numbered below zero."""
    known: dict[tuple[object, ...], int] = {}
    found = [_tensor(program, index, known) for index in range(len(program.code))]
    found += [len(known) + call for call in range(len(program.calls))]
    first = max([-1, *found]) + 1
    return np.array([*found, *range(first, first + n_given)], np.int64)


def _tensor(program: Program, index: int, known: dict[tuple[object, ...], int]) -> int:
    layer = program.descriptor(index)
    if "ofm_base" not in layer:
        return -2 - index
    place = (value for name, value in layer.items() if name.startswith("ofm_"))
    return known.setdefault((program.spec(index).mnemonic, layer["scales"], *place), len(known))
