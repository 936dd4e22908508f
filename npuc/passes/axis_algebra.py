"""What a chain of reshapes and transposes does, as one reshape, one transpose and one reshape.

The input's elements are numbered in row-major order. Every axis of the current view is a product of *atoms*, an atom
being (size, stride): `size` steps of `stride` elements each. A transpose reorders the axes, a reshape regroups the
atoms, splitting one where a new axis ends inside it. Since only sizes count, the result is exact, not a heuristic.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from math import prod

from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose

Atom = tuple[int, int]
Axes = list[list[Atom]]


def axes_of(shape: tuple[int, ...]) -> Axes:
    """Every axis one atom, row-major."""
    return [[(size, prod(shape[i + 1 :]))] if size != 1 else [] for i, size in enumerate(shape)]


def follow(ops: Iterable[Op], shape: tuple[int, ...]) -> Axes | None:
    """Axes after reshapes and transposes of a tensor of this shape; None when an atom cannot be split."""
    axes: Axes | None = axes_of(shape)
    for op in ops:
        if axes is None:
            return None
        if isinstance(op, Transpose):
            axes = [axes[axis] for axis in op.perm]
        elif isinstance(op, Reshape):
            axes = regroup(merge(chain.from_iterable(axes)), op.shape)
        else:
            return None
    return axes


def merge(atoms: Iterable[Atom]) -> list[Atom]:
    """Join neighbors that together step through memory as one."""
    merged: list[Atom] = []
    for size, stride in atoms:
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged


def regroup(atoms: list[Atom], shape: tuple[int, ...]) -> Axes | None:
    """Distribute atoms over new axes, splitting where an axis ends inside one; None when that is not possible."""
    rest = list(reversed(atoms))
    axes: Axes = []
    for wanted in shape:
        axis: list[Atom] = []
        while wanted > 1:
            size, stride = rest.pop()
            if size > wanted:
                if size % wanted:
                    return None
                rest.append((size // wanted, stride))
                stride *= size // wanted
                size = wanted
            if wanted % size:
                return None
            axis.append((size, stride))
            wanted //= size
        axes.append(axis)
    return axes


def canonical(axes: Axes, shape: tuple[int, ...], result: tuple[int, ...]) -> list[Op]:
    """The shortest [Reshape] [Transpose] [Reshape] that gives these axes from a tensor of `shape`."""
    order = merge(chain.from_iterable(axes))
    if len(order) <= 1:
        return [Reshape(result)] if result != shape else []
    if sorted(shape) == sorted(result) and (perm := as_transpose(axes, shape)) is not None:
        return [Transpose(perm)]
    memory = sorted(order, key=lambda atom: -atom[1])
    sizes = tuple(size for size, _ in memory)
    perm = tuple(memory.index(atom) for atom in order)
    ops: list[Op] = [Reshape(sizes)] if sizes != shape else []
    ops.append(Transpose(perm))
    moved = tuple(sizes[axis] for axis in perm)
    return [*ops, Reshape(result)] if moved != result else ops


def as_transpose(axes: Axes, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Permutation of the axes of `shape` that gives `axes`, None when it is none; axes of size 1 fit anywhere."""
    whole = axes_of(shape)
    free = [i for i, axis in enumerate(whole) if not axis]
    perm = []
    for axis in axes:
        merged = merge(axis)
        if not merged:
            if not free:
                return None
            perm.append(free.pop(0))
        elif merged in whole:
            perm.append(whole.index(merged))
        else:
            return None
    return tuple(perm)
