"""Find a placement of minimal peak, with a proof where there is one."""

from itertools import islice

from npuc.allocation.component_search import Budget, Search, lower_peak
from npuc.allocation.greedy import body_orders, pack_greedily
from npuc.allocation.normal_form import NormalForm, normalize
from npuc.allocation.packing import offsets_of
from npuc.allocation.placement import CapacityExceeded, Placement
from npuc.allocation.problem import Problem

N_EXACT_ORDERS = 4
TOTAL_STEPS = 1_000_000_000
TOTAL_WORK = 0.24
"""Limits of the exact searches at effort 1."""


def allocate(problem: Problem, effort: float = 1.0) -> Placement:
    """Place the buffers with the smallest peak that can be found, and the best bound that can be proven.

    effort scales the exact search, which runs when the constructive packings miss the bound: 0 leaves it out, 1 may
    take about ten seconds. The answer depends on the problem and the effort only, not on the clock.
    Raises InvalidProblem if constraints contradict each other, CapacityExceeded if no placement found fits.
    """
    normal = normalize(problem)
    capacity_bytes = problem.capacity_bytes
    searches = _search(normal, None if capacity_bytes is None else capacity_bytes // normal.unit, effort)
    placement = _placement(normal, searches)
    if capacity_bytes is not None and placement.peak_bytes > capacity_bytes:
        raise CapacityExceeded(capacity_bytes, placement, problem)
    return placement


def _search(normal: NormalForm, capacity: int | None, effort: float) -> list[Search]:
    """Components share the arena, so that each needs only get as low as the highest one has to be."""
    searches: list[Search] = []
    good_enough, budget = normal.bound, Budget(int(effort * TOTAL_STEPS), effort * TOTAL_WORK)
    for component in sorted(normal.components, key=lambda component: -component.bound):
        best = pack_greedily(component, good_enough)
        orders = list(islice(body_orders(component), N_EXACT_ORDERS))
        searches.append(Search(component, orders, best, component.bound, good_enough, budget))
        lower_peak(searches[-1], capacity)
        good_enough = max(good_enough, searches[-1].best.peak)
    return searches


def _placement(normal: NormalForm, searches: list[Search]) -> Placement:
    return Placement(
        offsets=offsets_of(((search.component, search.best) for search in searches), normal.unit),
        peak_bytes=normal.unit * max((search.best.peak for search in searches), default=0),
        bound_bytes=normal.unit * max((search.bound for search in searches), default=0),
    )
