"""Find a placement of minimal peak, with a proof where there is one."""

from dataclasses import dataclass
from itertools import islice

from npuc.allocation.clique_model import Verdict, fit_in_height
from npuc.allocation.greedy import Order, Packing, body_orders, pack_greedily
from npuc.allocation.live import live_at_peak
from npuc.allocation.normal_form import Component, NormalForm, normalize
from npuc.allocation.placement import CapacityExceeded, Placement
from npuc.allocation.problem import Problem

N_EXACT_ORDERS = 4
SHORT_SLICE = 0.03
LONG_SLICE = 0.12
TOTAL_WORK = 0.24
"""Limits of the exact search in deterministic time of CP-SAT; a CPU second is about 0.03 of it."""


@dataclass
class _Search:
    """What is known about one component, in units: no peak below `bound`, and `best` reaches its own."""

    component: Component
    orders: list[Order]
    best: Packing
    bound: int
    work_left: float

    def fits(self, height: int, slice_work: float) -> bool:
        """Try to reach the height; learn from the answer, whatever it is."""
        for order in self.orders:
            if self.best.peak <= height or self.bound > height or self.work_left <= 0:
                break
            self._learn(height, fit_in_height(self.component, height, order, min(slice_work, self.work_left)))
        return self.best.peak <= height

    def _learn(self, height: int, verdict: Verdict) -> None:
        self.work_left -= verdict.work
        if verdict.packing is not None:
            self.best = verdict.packing
        if verdict.is_infeasible:
            self.bound = height + 1


def allocate(problem: Problem, effort: float = 1.0) -> Placement:
    """Place the buffers with the smallest peak that can be found, and the best bound that can be proven.

    effort scales the exact search, which runs when the constructive packings miss the bound: 0 leaves it out, 1 may
    take about ten seconds. The answer depends on the problem and the effort only, not on the clock.
    Raises InvalidProblem if constraints contradict each other, CapacityExceeded if no placement found fits.
    """
    normal = normalize(problem)
    capacity_bytes = problem.capacity_bytes
    searches = _search(normal, None if capacity_bytes is None else capacity_bytes // normal.unit, effort * TOTAL_WORK)
    placement = _placement(normal, searches)
    if capacity_bytes is not None and placement.peak_bytes > capacity_bytes:
        raise CapacityExceeded(capacity_bytes, placement, live_at_peak(problem))
    return placement


def _search(normal: NormalForm, capacity: int | None, work: float) -> list[_Search]:
    """Components share the arena, so that each needs only get as low as the highest one has to be."""
    searches: list[_Search] = []
    good_enough = normal.bound
    for component in sorted(normal.components, key=lambda component: -component.bound):
        best = pack_greedily(component, good_enough)
        search = _Search(component, list(islice(body_orders(component), N_EXACT_ORDERS)), best, component.bound, work)
        _lower_peak(search, good_enough, capacity)
        searches.append(search)
        good_enough = max(good_enough, search.best.peak)
        work = search.work_left
    return searches


def _lower_peak(search: _Search, good_enough: int, capacity: int | None) -> None:
    """Try the bound, then the capacity, then halve the distance between what failed and what was reached."""
    if search.fits(good_enough, SHORT_SLICE):
        return
    if capacity is not None and capacity >= good_enough:
        search.fits(capacity, LONG_SLICE)
    failed = good_enough
    while search.work_left > 0 and search.best.peak - max(failed, search.bound - 1) > 1:
        middle = (max(failed, search.bound - 1) + search.best.peak) // 2
        if not search.fits(middle, SHORT_SLICE):
            failed = middle
    search.fits(search.best.peak - 1, LONG_SLICE)


def _placement(normal: NormalForm, searches: list[_Search]) -> Placement:
    offsets = {
        name: base * normal.unit + shift
        for search in searches
        for body, base in zip(search.component.bodies, search.best.bases, strict=True)
        for name, shift in body.shifts
    }
    return Placement(
        offsets=dict(sorted(offsets.items())),
        peak_bytes=normal.unit * max((search.best.peak for search in searches), default=0),
        bound_bytes=normal.unit * max((search.bound for search in searches), default=0),
    )
