"""Order of kernels: one runs earlier or later than its node where memory is then held for less time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from npuc.lower.kernel import PARAMETERS, Kernel

SMALL_PART = 16
"""A result is small when this many of it are no more than the largest one."""


def with_stores(kernels: Sequence[Kernel], stores: Iterable[Sequence[Kernel]]) -> list[Kernel]:
    """Kernels with those of each store behind the last one that touches the old state or writes the new one.

    As early as that, so that the new state is not held beside the old one until the end. They are not spatial: stripes
    would overwrite rows of the old state before others have read them.
    """
    behind: dict[int, list[Kernel]] = {}
    for store in stores:
        new = frozenset().union(*(kernel.reads for kernel in store))
        old = {kernel.ofm.storage for kernel in store}
        at = -1
        for i, kernel in enumerate(kernels):
            if kernel.ofm.storage in new | old or kernel.reads & old:
                at = i
        behind.setdefault(at, []).extend(replace(kernel, spatial=False) for kernel in store)
    return behind.get(-1, []) + [item for i, kernel in enumerate(kernels) for item in (kernel, *behind.get(i, []))]


def delayed(kernels: Sequence[Kernel], kept: Set[str]) -> list[Kernel]:
    """Kernels right before the first that reads their result, where all that they read is still needed then.

    Nothing is live for longer and the result is for less time: no order of these kernels that differs only in this
    needs less. `kept` are the storages that are live until the end. A small result stays where it is: holding it costs
    little, and its kernel may run beside those of another unit.
    """
    order = list(kernels)
    largest = max((_n_bytes(kernel) for kernel in order), default=0)
    for i in range(len(order) - 2, -1, -1):
        j = _latest(order, i, kept)
        if j > i + 1 and _n_bytes(order[i]) * SMALL_PART > largest:
            order[i:j] = [*order[i + 1 : j], order[i]]
    return order


def _latest(order: Sequence[Kernel], i: int, kept: Set[str]) -> int:
    """Position before which kernel i may stand at the latest; i + 1 where it had better stay."""
    kernel = order[i]
    result, read = kernel.ofm.storage, kernel.reads - {PARAMETERS}
    if kernel.arm is not None or any(result in _touched(other) for other in order[:i]):
        return i + 1
    for j in range(i + 1, len(order)):
        if order[j].ofm.storage in read:
            return i + 1
        if result in _touched(order[j]):
            needed = frozenset(kept).union(*(_touched(other) for other in order[j:]))
            return j if read <= needed else i + 1
    return i + 1


def _n_bytes(kernel: Kernel) -> int:
    return math.prod(kernel.ofm.shape) * kernel.ofm.element_bytes


def _touched(kernel: Kernel) -> frozenset[str]:
    return kernel.reads | {kernel.ofm.storage}
