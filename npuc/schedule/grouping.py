"""Choose which kernels run stripe by stripe: merge groups around the memory peak until the activations fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from npuc.lower.kernel import Kernel
from npuc.schedule.memory import Storage, expand_all, live_ranges, profile
from npuc.schedule.stripes import Group, StripeBook

STRIPES = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of stripes tried for a merged group."""

LONGEST_GROUP = 12
"""Most kernels in one group; longer cascades recompute nothing but fragment the instruction stream."""


Peaks = tuple[int, ...]
"""Peak live bytes of each group above the capacity, largest first: what merging makes smaller."""


def peaks_of(
    book: StripeBook, storages: Mapping[str, Storage], groups: Sequence[Group], capacity_bytes: int
) -> tuple[Peaks, int]:
    """Peaks of live activation bytes, and the group with the first of the largest."""
    steps, owner = expand_all(book, groups)
    if not steps:
        return (), 0
    live = profile(live_ranges(book, storages, groups, steps, owner), len(steps))
    peaks = np.zeros(len(groups), np.int64)
    np.maximum.at(peaks, owner, live)
    above = sorted((int(peak) for peak in peaks if peak > capacity_bytes), reverse=True)
    return tuple(above), int(peaks.argmax())


def choose_groups(book: StripeBook, storages: Mapping[str, Storage], capacity_bytes: int) -> list[Group]:
    """Groups whose activations need at most `capacity_bytes`, or the smallest peaks that merging finds."""
    groups = [Group(i, i + 1) for i in range(len(book.kernels))]
    peaks, at = peaks_of(book, storages, groups, capacity_bytes)
    while peaks:
        best: tuple[Peaks, int, list[Group]] | None = None
        for candidate, stripes in _merges(book.kernels, groups, at):
            found, _ = peaks_of(book, storages, candidate, capacity_bytes)
            if best is None or (found, stripes) < best[:2]:
                best = (found, stripes, candidate)
        if best is None or best[0] >= peaks:
            return groups
        groups = best[2]
        peaks, at = peaks_of(book, storages, groups, capacity_bytes)
    return groups


def _merges(kernels: Sequence[Kernel], groups: list[Group], at: int) -> Iterator[tuple[list[Group], int]]:
    """Group lists in which a window of neighbours around group `at` became one striped group."""
    for before in range(4):
        for after in range(4):
            low, high = max(at - before, 0), min(at + after, len(groups) - 1)
            window = range(groups[low].start, groups[high].stop)
            if len(window) < 2 or len(window) > LONGEST_GROUP or not all(kernels[i].spatial for i in window):
                continue
            rows = max(kernels[i].space[1] for i in window)
            for stripes in STRIPES:
                if stripes <= rows:
                    merged = Group(window.start, window.stop, stripes)
                    yield [*groups[:low], merged, *groups[high + 1 :]], stripes
