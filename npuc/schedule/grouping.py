"""Choose which kernels run stripe by stripe: merge groups around the memory peak until the activations fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npuc.lower.kernel import Kernel
from npuc.schedule.group_peaks import GroupPeaks
from npuc.schedule.stripes import Group

STRIPES = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of stripes tried for a merged group."""

LONGEST_GROUP = 12
"""Most kernels in one group; longer cascades recompute nothing but fragment the instruction stream."""

REACH = 4
"""Groups on either side of the one at the peak that may join it."""


def choose_groups(kernels: Sequence[Kernel], peaks: GroupPeaks, capacity_bytes: int) -> list[Group]:
    """Groups whose activations need at most `capacity_bytes`, or the smallest peaks that merging finds."""
    groups = [Group(i, i + 1) for i in range(len(kernels))]
    heights = [peaks.of(group) for group in groups]
    while groups and max(heights) > capacity_bytes:
        at = heights.index(max(heights))
        best: tuple[list[int], int, range] | None = None
        merged_best = groups[at]
        for window, merged in _merges(kernels, groups, at):
            outside = heights[: window.start] + heights[window.stop :]
            above = _above([*outside, peaks.of(merged)], capacity_bytes)
            if best is None or (above, merged.stripes) < best[:2]:
                best, merged_best = (above, merged.stripes, window), merged
        if best is None or best[0] >= _above(heights, capacity_bytes):
            return groups
        window = best[2]
        groups[window.start : window.stop] = [merged_best]
        heights[window.start : window.stop] = [peaks.of(merged_best)]
    return groups


def _above(heights: Sequence[int], capacity_bytes: int) -> list[int]:
    """Peaks above the capacity, largest first: what merging makes smaller."""
    return sorted((height for height in heights if height > capacity_bytes), reverse=True)


def _merges(kernels: Sequence[Kernel], groups: Sequence[Group], at: int) -> Iterator[tuple[range, Group]]:
    """Windows of neighbours around group `at`, and the striped group that each would become."""
    for before in range(REACH):
        for after in range(REACH):
            low, high = at - before, at + after
            if low < 0 or high >= len(groups):
                continue
            inside = range(groups[low].start, groups[high].stop)
            if len(inside) < 2 or len(inside) > LONGEST_GROUP or not all(kernels[i].spatial for i in inside):
                continue
            rows = max(kernels[i].space[1] for i in inside)
            for stripes in STRIPES:
                if stripes <= rows:
                    yield range(low, high + 1), Group(inside.start, inside.stop, stripes)
