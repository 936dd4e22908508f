"""Groups that cost the least where the activations do not fit: dynamic programming over where groups begin and end.

Stripes and slices save memory and cost instructions. Weights that find no room beside a striped group come through
flash again for each of its stripes, unlike those of a kernel that runs alone, whose tiles of channels are loaded one by
one. A group in slices reads them once, unless they find no room and its pixels fill more than a block. The peak and the
cost of a group depend on the group alone, so that the cheapest way to cut the network is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from npuc.lower.kernel import ALIGNMENT, Kernel
from npuc.schedule.group_peaks import GroupPeaks
from npuc.schedule.grouping import LONGEST_GROUP, sliced_groups
from npuc.schedule.memory import aligned
from npuc.schedule.stripes import Group

STRIPES = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of stripes tried for a group."""

STEP_BYTES = 128
"""What a step of a group in stripes or slices costs, in bytes of flash that stream meanwhile: its instruction, and the
exposed start and end of its blocks."""


BLOCK_PIXELS = 256
"""Pixels of a block of the array at most: weights in flash pass once for each block."""


@dataclass(frozen=True)
class _Best:
    """The least that the kernels up to a cut cost, and the last group of them."""

    cost_bytes: int
    group: Group | None = None


def cheapest_groups(
    kernels: Sequence[Kernel],
    peaks: GroupPeaks,
    room_bytes: int,
    capacity_bytes: int,
    slices: Sequence[int] = (),
) -> list[Group] | None:
    """Groups whose activations need at most `room_bytes`, and that read the fewest bytes of flash again.

    `capacity_bytes` is what activations and the weights that stay have together; `slices`: channels of a slice that are
    tried. None when no groups fit.
    """
    alone = [peaks.of(Group(i, i + 1)) <= room_bytes for i in range(len(kernels))]
    best: list[_Best | None] = [_Best(0)]
    for stop in range(1, len(kernels) + 1):
        found: _Best | None = None
        for start in range(stop - 1, max(stop - LONGEST_GROUP, 0) - 1, -1):
            before = best[start]
            if not kernels[start].spatial and start < stop - 1:
                break
            if before is None:
                continue
            inside = range(start, stop)
            ways = _ways(kernels, peaks, inside, room_bytes, capacity_bytes, alone)
            for group, cost in chain(ways, _sliced(kernels, peaks, inside, room_bytes, capacity_bytes, alone, slices)):
                if found is None or before.cost_bytes + cost < found.cost_bytes:
                    found = _Best(before.cost_bytes + cost, group)
        best.append(found)
    groups: list[Group] = []
    at = best[-1]
    while at is not None and at.group is not None:
        groups.append(at.group)
        at = best[at.group.start]
    return groups[::-1] if at is not None else None


def lower_groups(
    kernels: Sequence[Kernel], peaks: GroupPeaks, peak_bytes: int, slices: Sequence[int] = ()
) -> Iterator[list[Group]]:
    """Groups that need less than `peak_bytes`, less than those, and so on, each the cheapest; the lowest come last."""
    while peak_bytes > 0:
        room = peak_bytes - ALIGNMENT
        found = cheapest_groups(kernels, peaks, room, room, slices)
        if not found:
            return
        yield found
        peak_bytes = max(map(peaks.of, found))


def _ways(
    kernels: Sequence[Kernel],
    peaks: GroupPeaks,
    inside: range,
    room_bytes: int,
    capacity_bytes: int,
    alone: Sequence[bool],
) -> Iterator[tuple[Group, int]]:
    """The ways in which kernels can be a group that fits, each with its cost: alone, or in stripes if one has to be."""
    if len(inside) == 1:
        if alone[inside.start]:
            yield Group(inside.start, inside.stop), 0
        return
    if all(alone[i] for i in inside) or not all(kernels[i].spatial for i in inside):
        return
    if max(peaks.between(inside.start), peaks.between(inside.stop)) > room_bytes:
        return
    rows = max(kernels[i].space[1] for i in inside)
    counts = [count for count in STRIPES if count <= rows]
    for index in range(_first_fit(peaks, inside, counts, room_bytes), len(counts)):
        group = Group(inside.start, inside.stop, counts[index])
        peak = peaks.of(group)
        if peak > room_bytes:
            continue
        again = _read_again(kernels, group, capacity_bytes - peak)
        yield group, again + STEP_BYTES * peaks.n_steps(group)
        if not again:
            return


def _sliced(
    kernels: Sequence[Kernel],
    peaks: GroupPeaks,
    inside: range,
    room_bytes: int,
    capacity_bytes: int,
    alone: Sequence[bool],
    slices: Sequence[int],
) -> Iterator[tuple[Group, int]]:
    """The ways in which kernels can be a group in slices that fits, each with its cost, if one does not fit alone."""
    if len(inside) == 1 or all(alone[i] for i in inside):
        return
    for group in sliced_groups(peaks, inside, slices):
        peak = peaks.of(group)
        if peak <= room_bytes:
            again = _streamed_again(kernels, group, capacity_bytes - peak)
            yield group, again + STEP_BYTES * peaks.n_steps(group)


def _streamed_again(kernels: Sequence[Kernel], group: Group, free_bytes: int) -> int:
    """Bytes of weights that come more than once, when those of a slice that find no room stay in flash."""
    members = kernels[group.start : group.stop]
    free = free_bytes - sum(kernel.parameters.head_bytes for kernel in members)
    again = 0
    for kernel in members:
        _, height, width, channels = kernel.space
        n_bytes = len(kernel.parameters.weights)
        if n_bytes * group.channels // channels > free:
            again += n_bytes * ((height * width - 1) // BLOCK_PIXELS)
    return again


def _first_fit(peaks: GroupPeaks, inside: range, counts: Sequence[int], room_bytes: int) -> int:
    """Index of the first number of stripes that fits, as more stripes mostly need less."""
    low, high = 0, len(counts)
    while low < high:
        middle = (low + high) // 2
        if peaks.of(Group(inside.start, inside.stop, counts[middle])) <= room_bytes:
            high = middle
        else:
            low = middle + 1
    return low


def _read_again(kernels: Sequence[Kernel], group: Group, free_bytes: int) -> int:
    """Bytes of weights that come more than once, when the largest stay in flash until the others fit."""
    sizes = sorted((aligned(kernels[i].parameters.n_bytes) for i in range(group.start, group.stop)), reverse=True)
    kept, again = sum(sizes), 0
    for size in sizes:
        if kept <= free_bytes:
            break
        kept -= size
        again += size * (group.stripes - 1)
    return again
