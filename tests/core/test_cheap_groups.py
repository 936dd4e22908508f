"""Groups of least cost: they fit, they are the cheapest of all, and they keep large weights out of many stripes."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from npuc.lower.kernel import Kernel, Parameters
from npuc.lower.operand import Operand
from npuc.schedule.cheap_groups import STEP_BYTES, cheapest_groups
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
    kernels = [
        Kernel(f"k{i}", "vec.copy", (), operands[i + 1], operands[i], parameters=_weights(n), spatial=True)
        for i, n in enumerate(weights)
    ]
    last = len(widths) - 1
    storages = {f"v{i}": Storage(f"v{i}", width * ROWS, i == 0, i == last) for i, width in enumerate(widths)}
    return kernels, GroupPeaks(StripeBook(kernels), storages)


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


def test_what_fits_runs_alone_and_what_cannot_is_none() -> None:
    kernels, peaks = chain([16, 64, 16], [0, 256])
    assert cheapest_groups(kernels, peaks, 1 << 20, 1 << 20) == [Group(0, 1), Group(1, 2)]
    assert cheapest_groups(kernels, peaks, 1000, 1000) is None


@pytest.mark.parametrize("room", [1500, 1700, 2000, 2500, 3000])
@pytest.mark.parametrize("weights", [[100, 3000, 50, 700, 10], [4000, 10, 0, 10, 4000], [0, 900, 900, 900, 0]])
def test_no_way_to_cut_the_network_costs_less(room: int, weights: list[int]) -> None:
    kernels, peaks = chain([16, 64, 32, 48, 64, 16], weights)
    found = cheapest_groups(kernels, peaks, room, room)
    costs = [_cost(kernels, peaks, groups, room) for groups in _all(5) if max(map(peaks.of, groups)) <= room]
    assert (found is None) == (not costs)
    if found is not None:
        assert max(map(peaks.of, found)) <= room
        assert _cost(kernels, peaks, found, room) == min(costs)


def _all(n: int) -> list[list[Group]]:
    """All ways to cut n kernels into groups, in 1 to 32 stripes."""
    ways = []
    for k in range(n):
        for cuts in combinations(range(1, n), k):
            ends = [0, *cuts, n]
            ways += _striped(list(pairwise(ends)))
    return ways


def _striped(spans: list[tuple[int, int]]) -> list[list[Group]]:
    if not spans:
        return [[]]
    (start, stop), *rest = spans
    counts = (2, 3, 4, 6, 8, 12, 16, 24, 32) if stop - start > 1 else (1,)
    return [[Group(start, stop, count), *others] for others in _striped(rest) for count in counts]


def _cost(kernels: list[Kernel], peaks: GroupPeaks, groups: list[Group], capacity: int) -> int:
    """Bytes read again, and the price of the steps, worked out anew."""
    total = 0
    for group in groups:
        if group.stripes == 1:
            continue
        sizes = sorted(-(-len(kernels[i].parameters.weights) // 16) * 16 for i in range(group.start, group.stop))
        free = capacity - peaks.of(group)
        while sum(sizes) > free and sizes:
            total += sizes.pop() * (group.stripes - 1)
        total += STEP_BYTES * sum(-(-ROWS // -(-ROWS // group.stripes)) for _ in range(group.start, group.stop))
    return total
