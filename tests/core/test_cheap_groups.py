"""Groups of least cost: they fit, they are the cheapest of all, and they keep large weights out of many stripes."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from npuc.lower.kernel import ChannelGroup, Kernel, Parameters
from npuc.lower.operand import Operand
from npuc.schedule.cheap_groups import STEP_BYTES, cheapest_groups, lower_groups
from npuc.schedule.group_peaks import GroupPeaks
from npuc.schedule.grouping import choose_groups
from npuc.schedule.memory import Storage
from npuc.schedule.stripes import Group, StripeBook

ROWS = 32


def chain(widths: list[int], weights: list[int]) -> tuple[list[Kernel], GroupPeaks]:
    """Kernels that each read the one before: bytes of a row of each value, bytes of weights of each kernel."""
    operands = [
        Operand(f"v{i}", 0, (1, ROWS, 1, width), width * ROWS, width, width, 16, 16) for i, width in enumerate(widths)
    ]
    kernels = [_kernel(i, operands[i], operands[i + 1], n) for i, n in enumerate(weights)]
    last = len(widths) - 1
    storages = {f"v{i}": Storage(f"v{i}", width * ROWS, i == 0, i == last) for i, width in enumerate(widths)}
    return kernels, GroupPeaks(StripeBook(kernels), storages)


def _kernel(i: int, source: Operand, result: Operand, n_bytes: int) -> Kernel:
    """A convolution where the number of channels changes."""
    k, c = source.shape[3], result.shape[3]
    mnemonic, groups = ("vec.copy", ()) if k == c else ("mac.conv", (ChannelGroup(0, c, 0, k),))
    return Kernel(f"k{i}", mnemonic, (), result, source, None, {}, _weights(n_bytes), groups, spatial=True)


def _weights(n_bytes: int) -> Parameters:
    return Parameters(weights=b"\0" * n_bytes)


def test_large_weights_run_in_few_stripes() -> None:
    kernels, peaks = chain([16, 64, 16, 64, 16], [0, 0, 4000, 0])
    assert choose_groups(kernels, peaks, 1600) == [Group(0, 4, 8)]
    assert cheapest_groups(kernels, peaks, 1600, 1600) == [Group(0, 2, 4), Group(2, 4, 4)]


def test_weights_that_find_room_cost_nothing() -> None:
    kernels, peaks = chain([16, 64, 16], [0, 256])
    found = cheapest_groups(kernels, peaks, 1600, 1600 + 256)
    assert found == [Group(0, 2, 4)]
    assert _cost(kernels, peaks, found, 1600 + 256) == STEP_BYTES * 8


def test_slices_read_weights_once() -> None:
    kernels, peaks = chain([16, 128, 128, 16], [3000, 0, 3000])
    room = ROWS * (16 + 128 + 32)
    assert cheapest_groups(kernels, peaks, room, room) == [Group(0, 3, 2)]
    assert cheapest_groups(kernels, peaks, room, room, (64, 32, 16)) == [Group(0, 2, channels=32), Group(2, 3)]


def test_what_fits_runs_alone_and_what_cannot_is_none() -> None:
    kernels, peaks = chain([16, 64, 16], [0, 256])
    assert cheapest_groups(kernels, peaks, 1 << 20, 1 << 20) == [Group(0, 1), Group(1, 2)]
    assert cheapest_groups(kernels, peaks, 1000, 1000) is None


@pytest.mark.parametrize("room", [1500, 1700, 2000, 2500, 3000])
@pytest.mark.parametrize("weights", [[100, 3000, 50, 700, 10], [4000, 10, 0, 10, 4000], [0, 900, 900, 900, 0]])
@pytest.mark.parametrize(("widths", "slices"), [((16, 64, 32, 48, 64, 16), ()), ((16, 64, 64, 64, 32, 32), (32, 16))])
def test_no_way_to_cut_the_network_costs_less(
    room: int, weights: list[int], widths: tuple[int, ...], slices: tuple[int, ...]
) -> None:
    kernels, peaks = chain(list(widths), weights)
    found = cheapest_groups(kernels, peaks, room, room, slices)
    ways = [groups for groups in _all(5, slices) if all(_is_possible(kernels, group) for group in groups)]
    costs = [_cost(kernels, peaks, groups, room) for groups in ways if max(map(peaks.of, groups)) <= room]
    assert (found is None) == (not costs)
    if found is not None:
        assert max(map(peaks.of, found)) <= room
        assert _cost(kernels, peaks, found, room) == min(costs)


@pytest.mark.parametrize(("widths", "slices"), [((16, 64, 32, 48, 64, 16), ()), ((16, 64, 64, 64, 32, 32), (32, 16))])
def test_no_groups_need_less_than_the_lowest(widths: tuple[int, ...], slices: tuple[int, ...]) -> None:
    kernels, peaks = chain(list(widths), [100, 3000, 50, 700, 10])
    found = [max(map(peaks.of, groups)) for groups in lower_groups(kernels, peaks, 1 << 20, slices)]
    assert all(later < before for before, later in pairwise(found))
    ways = [groups for groups in _all(5, slices) if all(_is_possible(kernels, group) for group in groups)]
    assert found[-1] == min(max(map(peaks.of, groups)) for groups in ways)


def _all(n: int, slices: tuple[int, ...]) -> list[list[Group]]:
    """All ways to cut n kernels into groups, in 1 to 32 stripes or in slices."""
    ways = []
    for k in range(n):
        for cuts in combinations(range(1, n), k):
            ends = [0, *cuts, n]
            ways += _cut(list(pairwise(ends)), slices)
    return ways


def _cut(spans: list[tuple[int, int]], slices: tuple[int, ...]) -> list[list[Group]]:
    if not spans:
        return [[]]
    (start, stop), *rest = spans
    counts = (2, 3, 4, 6, 8, 12, 16, 24, 32) if stop - start > 1 else (1,)
    groups = [Group(start, stop, count) for count in counts]
    groups += [Group(start, stop, channels=size) for size in slices if stop - start > 1]
    return [[group, *others] for others in _cut(rest, slices) for group in groups]


def _is_possible(kernels: list[Kernel], group: Group) -> bool:
    """Slices: kernels of as many channels, more than one slice, and only the first is a convolution."""
    inside = kernels[group.start : group.stop]
    channels = inside[0].space[3]
    alike = all(kernel.space[3] == channels for kernel in inside)
    copies = all(kernel.mnemonic == "vec.copy" for kernel in inside[1:])
    return not group.channels or (alike and copies and group.channels < channels)


def _cost(kernels: list[Kernel], peaks: GroupPeaks, groups: list[Group], capacity: int) -> int:
    """Bytes read again, and the price of the steps, worked out anew."""
    total = 0
    for group in groups:
        if group.channels:
            n_slices = -(-kernels[group.start].space[3] // group.channels)
            total += STEP_BYTES * n_slices * (group.stop - group.start)  # its rows are one block: nothing comes again
        if group.stripes == 1:
            continue
        sizes = sorted(-(-len(kernels[i].parameters.weights) // 16) * 16 for i in range(group.start, group.stop))
        free = capacity - peaks.of(group)
        while sum(sizes) > free and sizes:
            total += sizes.pop() * (group.stripes - 1)
        total += STEP_BYTES * sum(-(-ROWS // -(-ROWS // group.stripes)) for _ in range(group.start, group.stop))
    return total
