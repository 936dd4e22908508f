"""Which tensor each row writes, as strict mode tells tensors apart: by descriptors; every call a tensor of its own.

Where an instruction computes one pixel of a tensor of one row, its origin may stand for an address: layers, and time
steps of one layer, then share a descriptor, and only the origin tells their tensors apart.
"""

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
    key = (program.spec(index).mnemonic, layer["scales"], free_origin(program, index), *place)
    return known.setdefault(key, len(known))


def free_origin(program: Program, index: int) -> tuple[int, ...]:
    """Origin of the one pixel that an instruction computes; empty where it says which part of a tensor it is."""
    layer, values = program.descriptor(index), program.values(index)
    is_pixel = values["height"] == values["width"] == 1 and not layer["ofm_row"] and not layer["ofm_batch"]
    return (values["n"], values["y"], values["x"]) if is_pixel else ()
