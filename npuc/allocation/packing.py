"""What the searches find: the bases of a component's bodies, or the knowledge that there are none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from npuc.allocation.normal_form import Component


@dataclass(frozen=True)
class Packing:
    """Base of each body of a component, in units and in the component's order, and the peak."""

    bases: tuple[int, ...]
    peak: int


@dataclass(frozen=True)
class Verdict:
    """packing: found; is_infeasible: proven that none exists; neither: the limit was hit. work: see the search."""

    packing: Packing | None
    is_infeasible: bool
    work: float


def packing_of(component: Component, bases: Sequence[int]) -> Packing:
    return Packing(tuple(bases), int((np.array(bases, np.int64) + component.heights).max()))


def offsets_of(found: Iterable[tuple[Component, Packing]], unit: int) -> dict[str, int]:
    """Bytes from the arena's start by buffer name, in the order of the names; a unit has `unit` bytes."""
    offsets = {
        name: base * unit + shift
        for component, packing in found
        for body, base in zip(component.bodies, packing.bases, strict=True)
        for name, shift in body.shifts
    }
    return dict(sorted(offsets.items()))
