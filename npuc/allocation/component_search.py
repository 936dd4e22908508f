"""Lower the peak of one component: which search is tried at which height, and for how long.

All limits count work, never time: steps of the stack search, deterministic time of CP-SAT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npuc.allocation.clique_model import fit_in_height
from npuc.allocation.greedy import Order
from npuc.allocation.normal_form import Component
from npuc.allocation.packing import Packing, Verdict

if TYPE_CHECKING:
    from npuc.allocation.stack_search import StackSearch

MAX_STACKED = 2048
"""More bodies would take too much memory: a stack search keeps three tables of bodies by bodies."""
N_SLICES = 4
"""Into so many slices the work of an order is cut where several take turns, since the order decides."""
LONG_SHARE = 8
"""Of the steps, one part in so many goes to long searches at the goal, another to long ones at the end."""
START_NODES = 3_000
"""What a shaken order gets beside a node for each body: many short searches find more than a long one."""
TRIAL_SLICE = 0.01
SHORT_SLICE = 0.03
LONG_SLICE = 0.12
"""What one order of CP-SAT gets."""
SHAKE = 98304
ONE_PLACE = 65536
"""Two random numbers below SHAKE are added to a body's place times ONE_PLACE: it moves by at most three places."""


@dataclass
class Budget:
    """What is left: steps of the stack search, which are nodes times bodies (a CPU second is about 200 million), and
    work of CP-SAT (a second is about 0.03)."""

    steps: int
    work: float

    @property
    def is_spent(self) -> bool:
        return self.steps <= 0 and self.work <= 0


@dataclass
class Search:
    """What is known about one component, in units: no peak below `bound`, and `best` reaches its own.

    good_enough: a peak that another component needs anyway.
    """

    component: Component
    orders: Sequence[Order]
    best: Packing
    bound: int
    good_enough: int
    budget: Budget

    @property
    def goal(self) -> int:
        """The lowest peak that is of use and not proven impossible."""
        return max(self.good_enough, self.bound)

    @property
    def is_done(self) -> bool:
        return self.best.peak <= self.goal

    def is_settled(self, height: int) -> bool:
        """Whether it is known if a packing of this height exists."""
        return self.best.peak <= height or self.bound > height

    def learn(self, height: int, verdict: Verdict) -> None:
        if verdict.packing is not None:
            self.best = min(self.best, verdict.packing, key=lambda packing: packing.peak)
        if verdict.is_infeasible:
            self.bound = max(self.bound, height + 1)


def lower_peak(search: Search, capacity: int | None) -> None:
    """Try the goal first, which may be the bound; then come down from what was reached."""
    if search.is_done or search.budget.is_spent:
        return
    if is_stackable(search.component):
        _lower_by_stacking(search, capacity)
    else:
        _lower_by_model(search, capacity)


def is_stackable(component: Component) -> bool:
    """Whether the stack search can serve: every packing can be pushed down and built upwards body by body.

    Not so beside a body that is fixed, or that hangs over others: two of those may lock into each other.
    """
    plain = all(body.fixed is None and all(rect.low == 0 for rect in body.rects) for body in component.bodies)
    return plain and len(component.bodies) <= MAX_STACKED


def shaken(order: Order, seed: int) -> Order:
    """The order with each body up to one place off, mostly: exact integers, the same on every machine."""
    places = np.arange(len(order), dtype=np.int64) * ONE_PLACE
    draws = _random_bits(seed, 2 * len(order)) % np.uint64(SHAKE)
    noise = draws.reshape(2, -1).sum(axis=0).astype(np.int64)
    return [order[i] for i in np.argsort(places + noise, kind="stable").tolist()]


def _lower_by_stacking(search: Search, capacity: int | None) -> None:
    """CP-SAT at the goal in between, as it finds others than the stack search; the kernels load after a first try."""
    goal, unlike = search.goal, search.orders[::2]
    _solve(search, goal, TRIAL_SLICE, unlike[:1])
    if search.is_done:
        return
    from npuc.allocation.stack_search import Stacking, StackSearch

    stacking, share = Stacking(search.component), search.budget.steps // LONG_SHARE
    runs = [StackSearch(stacking) for _ in search.orders]
    _stack(search, runs, goal, share)
    _solve(search, goal, SHORT_SLICE, unlike[1:])
    _descend(search, runs[0], share)
    _stack(search, runs, search.best.peak - 1, share)
    _solve(search, search.best.peak - 1, TRIAL_SLICE, unlike[:1])
    if capacity is not None and capacity >= search.goal:
        _solve(search, capacity, LONG_SLICE, unlike)


def _lower_by_model(search: Search, capacity: int | None) -> None:
    """CP-SAT alone: the goal, the capacity, then halve the distance between what failed and what was reached."""
    failed = search.goal
    _solve(search, failed, SHORT_SLICE, search.orders)
    if capacity is not None and capacity >= search.goal:
        _solve(search, capacity, LONG_SLICE, search.orders)
    while search.budget.work > 0 and search.best.peak - max(failed, search.bound - 1) > 1:
        middle = (max(failed, search.bound - 1) + search.best.peak) // 2
        _solve(search, middle, SHORT_SLICE, search.orders)
        failed = failed if search.best.peak <= middle else middle
    _solve(search, search.best.peak - 1, LONG_SLICE, search.orders)


def _solve(search: Search, height: int, work: float, orders: Sequence[Order]) -> None:
    """CP-SAT by each order in turn, until one of them settles the height."""
    for order in orders:
        if search.is_settled(height) or search.is_done or search.budget.work <= 0:
            return
        verdict = fit_in_height(search.component, height, order, min(work, search.budget.work))
        search.budget.work -= verdict.work
        search.learn(height, verdict)


def _stack(search: Search, runs: Sequence[StackSearch], height: int, steps: int) -> None:
    """The stack search by each order, in slices that continue each other."""
    n_nodes = steps // (N_SLICES * len(runs) * len(search.component.bodies))
    for run, order in zip(runs, search.orders, strict=True):
        run.start(height, order)
    for run in [*runs] * N_SLICES:
        if search.is_settled(height) or search.is_done:
            return
        _advance(search, run, height, n_nodes)


def _descend(search: Search, run: StackSearch, reserve: int) -> None:
    """Short stack searches below the best peak, each by the order that last succeeded, slightly shaken."""
    highest = search.best.peak
    center = min(search.orders, key=lambda order: _reach(search, run, order, highest))
    step = 1
    for trial in count():
        if search.is_done or search.budget.steps <= reserve:
            return
        height = max(search.goal, search.best.peak - step)
        order = shaken(center, trial)
        run.start(height, order)
        verdict = _advance(search, run, height, START_NODES + len(order))
        if verdict.packing is not None:
            center, step = order, 2 * step
        elif verdict.is_infeasible:
            step = (search.best.peak - search.goal + 1) // 2
        else:
            step = max(step // 2, (search.best.peak - search.goal) // 128, 1)


def _reach(search: Search, run: StackSearch, order: Order, highest: int) -> int:
    """How low a short stack search by the order gets, by halving from a peak that is known."""
    reached, failed = highest, search.goal - 1
    while reached - failed > max(1, (highest - search.goal) // 64) and not search.is_done and search.budget.steps > 0:
        height = (reached + failed) // 2
        run.start(height, order)
        verdict = _advance(search, run, height, START_NODES + len(order))
        reached, failed = (verdict.packing.peak, failed) if verdict.packing else (reached, height)
    return reached


def _advance(search: Search, run: StackSearch, height: int, n_nodes: int) -> Verdict:
    n_bodies = len(search.component.bodies)
    verdict = run.advance(max(0, min(n_nodes, search.budget.steps // n_bodies)))
    search.budget.steps -= int(verdict.work) * n_bodies
    search.learn(height, verdict)
    return verdict


def _random_bits(seed: int, n: int) -> npt.NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea, Flood 2014): 64 random bits for each index of a stream."""
    with np.errstate(over="ignore"):
        bits = (np.arange(n, dtype=np.uint64) + np.uint64(seed * n + 1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))
