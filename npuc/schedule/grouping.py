"""Choose which kernels run stripe by stripe or slice by slice: merge groups around the memory peak until the
activations fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npuc.lower.kernel import Kernel
from npuc.schedule.group_peaks import GroupPeaks
from npuc.schedule.stripes import Group

STRIPES = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of stripes tried for a merged group."""

LONGEST_GROUP = 12
"""Most kernels in one group; longer cascades recompute nothing but fragment the instruction stream."""

REACHES = (4, 8)
"""Groups on either side of the one at the peak that may join it: more only where fewer do not lower it."""


def choose_groups(
    kernels: Sequence[Kernel], peaks: GroupPeaks, capacity_bytes: int, slices: Sequence[int] = ()
) -> list[Group]:
    """Groups whose activations need at most `capacity_bytes`, or the smallest peaks that merging finds.

    `slices`: channels of a slice that are tried; none: stripes only.
    """
    groups = [Group(i, i + 1) for i in range(len(kernels))]
    heights = [peaks.of(group) for group in groups]
    while groups and max(heights) > capacity_bytes:
        found = (_best_merge(kernels, peaks, groups, heights, capacity_bytes, reach, slices) for reach in REACHES)
        best = next((merge for merge in found if merge is not None), None)
        if best is None:
            return groups
        window, merged = best
        groups[window.start : window.stop] = [merged]
        heights[window.start : window.stop] = [peaks.of(merged)]
    return groups


def _best_merge(
    kernels: Sequence[Kernel],
    peaks: GroupPeaks,
    groups: Sequence[Group],
    heights: Sequence[int],
    capacity_bytes: int,
    reach: int,
    slices: Sequence[int],
) -> tuple[range, Group] | None:
    """The merge around the peak that lowers the peaks most, in the fewest parts; None when none lowers them."""
    at = heights.index(max(heights))
    best: tuple[list[int], int] | None = None
    merge: tuple[range, Group] | None = None
    for window, merged in _merges(kernels, peaks, groups, at, reach, slices):
        outside = [*heights[: window.start], *heights[window.stop :]]
        found = (_above([*outside, peaks.of(merged)], capacity_bytes), peaks.n_parts(merged))
        if best is None or found < best:
            best, merge = found, (window, merged)
    return merge if best is not None and best[0] < _above(heights, capacity_bytes) else None


def _above(heights: Sequence[int], capacity_bytes: int) -> list[int]:
    """Peaks above the capacity, largest first: what merging makes smaller."""
    return sorted((height for height in heights if height > capacity_bytes), reverse=True)


def _merges(
    kernels: Sequence[Kernel], peaks: GroupPeaks, groups: Sequence[Group], at: int, reach: int, slices: Sequence[int]
) -> Iterator[tuple[range, Group]]:
    """Windows of less than `reach` neighbours around group `at`, and the groups in stripes or slices that each could
    become."""
    for before in range(reach):
        for after in range(reach):
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
            for merged in sliced_groups(peaks, inside, slices):
                yield range(low, high + 1), merged


def sliced_groups(peaks: GroupPeaks, inside: range, slices: Sequence[int]) -> Iterator[Group]:
    """The ways to run neighbouring kernels in two slices or more."""
    if slices and peaks.book.slices.can_slice(inside.start, inside.stop):
        channels = peaks.book.kernels[inside.start].space[3]
        yield from (Group(inside.start, inside.stop, channels=size) for size in slices if size < channels)
