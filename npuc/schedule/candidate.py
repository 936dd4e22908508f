"""Placed plans with their cost, and the same plans with addresses whose peak is proven.

The constructive placement that a candidate begins with often lies above the bound. Several placements at the bound are
then tried, of the same instructions with buffers claimed as early or later: other addresses let tasks wait for others,
so that each has its own cost. What becomes of a candidate depends on the candidate alone, and its cost changes by
little: so the search is as monotone as without, and need only look at the candidates near the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from npuc.allocation import Placement, allocate, optimal_placements
from npuc.schedule.place import CLAIMED_AHEAD, Placed, with_addresses
from npuc.task.task import Plan
from npuc.task.text import Scheduled

Judge = Callable[[Plan], int]
"""Exact cost of a placed plan: cycles, or picojoules."""

FASTER, SLOWER = 256, 1024
"""A proof may lower or raise a cost by these parts of it."""

CLAIMS_AHEAD = (CLAIMED_AHEAD, 3, 2)
"""Tasks by which buffers are claimed before their bytes are expected; the fewer, the easier to pack."""

N_SEARCHES = 8
"""For placements at the bound."""


def least(cost: int) -> int:
    """What a candidate of this cost takes at least with a proof; it never falls when the cost rises."""
    return cost - cost // FASTER


def most(cost: int) -> int:
    """What a candidate of this cost takes at most with a proof."""
    return cost + cost // SLOWER


@dataclass(frozen=True)
class Candidate:
    """A placed plan and its cost, cycles or picojoules; `sram_bytes` is the smallest budget for which it is made."""

    cost: int
    peak_bytes: int
    sram_bytes: int
    placed: Placed

    @property
    def is_optimal(self) -> bool:
        """Whether no placement of the plan's buffers needs less."""
        return self.placed.placement.status == "optimal"

    @property
    def key(self) -> tuple[int, bool, int]:
        """What makes one candidate better than another: smaller is better."""
        return self.cost, not self.is_optimal, self.peak_bytes

    def at(self, placed: Placed, cost: int) -> Candidate:
        """The candidate with other addresses and their cost, for the same budgets."""
        return replace(self, cost=cost, peak_bytes=placed.placement.peak_bytes, placed=placed)


def proven(candidate: Candidate, judge: Judge) -> Candidate:
    """The candidate with addresses of proven peak, no higher than its own: the cheapest that are near enough, with
    buffers claimed as early as costs no more than the candidate. Else it stays."""
    if candidate.is_optimal:
        return candidate
    best: Candidate | None = None
    for ahead in CLAIMS_AHEAD:
        for placed in _at_the_bound(candidate.placed, ahead):
            cost = judge(placed.plan)
            if least(candidate.cost) <= cost <= most(candidate.cost) and (best is None or cost < best.cost):
                best = candidate.at(placed, cost)
        if best is not None and best.cost <= candidate.cost:
            break
    return best or candidate


def _at_the_bound(placed: Placed, ahead: int) -> Iterator[Placed]:
    problem = placed.problem_of(ahead)
    for placement in optimal_placements(problem, N_SEARCHES):
        if placement.peak_bytes <= placed.placement.peak_bytes:
            yield _moved(replace(placed, problem=problem), placement)


def certify(candidate: Candidate, judge: Judge, effort: float) -> Scheduled:
    """The plan with its proof; with other addresses of a smaller peak where they cost nothing."""
    placed = candidate.placed
    bound_bytes = placed.placement.bound_bytes
    if not candidate.is_optimal:
        found = allocate(placed.problem, effort)
        bound_bytes, moved = found.bound_bytes, _moved(placed, found)
        if found.peak_bytes < candidate.peak_bytes and judge(moved.plan) == candidate.cost:
            placed = moved
    peak_bytes = placed.placement.peak_bytes
    return Scheduled(placed.plan, peak_bytes, bound_bytes, "optimal" if peak_bytes == bound_bytes else "feasible")


def _moved(placed: Placed, placement: Placement) -> Placed:
    return replace(placed, plan=with_addresses(placed.plan, placement), placement=placement)
