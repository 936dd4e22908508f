"""Choose which kernels run stripe by stripe: merge groups around the memory peak until the activations fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npuc.lower.kernel import Kernel
from npuc.schedule.memory import Storage, expand_all, live_ranges, profile
from npuc.schedule.stripes import Group

STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of stripes tried for a merged group."""

LONGEST_GROUP = 12
"""Most kernels in one group; longer cascades recompute nothing but fragment the instruction stream."""


def peak_of(kernels: Sequence[Kernel], storages: Mapping[str, Storage], groups: Sequence[Group]) -> tuple[int, int]:
    """Peak of live activation bytes, and the group in which it first occurs."""
    steps, owner = expand_all(kernels, groups)
    if not steps:
        return 0, 0
    live = profile(live_ranges(kernels, storages, groups, steps, owner), len(steps))
    at = int(live.argmax())
    return int(live[at]), owner[at]


def choose_groups(kernels: Sequence[Kernel], storages: Mapping[str, Storage], capacity_bytes: int) -> list[Group]:
    """Groups whose activations need at most `capacity_bytes`, or the smallest peak that merging finds."""
    groups = [Group(i, i + 1) for i in range(len(kernels))]
    peak, at = peak_of(kernels, storages, groups)
    while peak > capacity_bytes:
        best: tuple[int, int, list[Group]] | None = None
        for candidate, stripes in _merges(kernels, groups, at):
            new_peak, _ = peak_of(kernels, storages, candidate)
            key = (max(new_peak, capacity_bytes), stripes)
            if best is None or key < best[:2]:
                best = (*key, candidate)
        if best is None or best[0] >= peak:
            return groups
        groups = best[2]
        peak, at = peak_of(kernels, storages, groups)
    return groups


def _merges(kernels: Sequence[Kernel], groups: list[Group], at: int) -> Iterator[tuple[list[Group], int]]:
    """Group lists in which a window of neighbours around group `at` became one striped group."""
    for before in range(4):
        for after in range(4):
            low, high = max(at - before, 0), min(at + after, len(groups) - 1)
            window = range(groups[low].start, groups[high].stop)
            if len(window) < 2 or len(window) > LONGEST_GROUP or not all(kernels[i].spatial for i in window):
                continue
            rows = kernels[window[-1]].space[1]
            for stripes in STRIPES:
                if stripes <= rows:
                    merged = Group(window.start, window.stop, stripes)
                    yield [*groups[:low], merged, *groups[high + 1 :]], stripes
