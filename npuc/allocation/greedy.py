"""Constructive placements: several orders times several fits, the best one wins."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from npuc.allocation.normal_form import Body, Component, IntArray, live_sums
from npuc.allocation.packing import Packing, packing_of

FAR = 1 << 62

Order = list[int]


@dataclass(frozen=True)
class Gaps:
    """Admissible bases of one body: low[i] <= base <= high[i], ascending, in units; the last gap has no top."""

    low: IntArray
    high: IntArray


Fit = Callable[[Gaps], int]


def first_fit(gaps: Gaps) -> int:
    return int(gaps.low[0])


def best_fit(gaps: Gaps) -> int:
    """The bottom of the gap that leaves the least room; the lowest one on ties."""
    return int(gaps.low[(gaps.high - gaps.low).argmin()])


FITS: tuple[Fit, ...] = (first_fit, best_fit)


def pack_greedily(component: Component, good_enough: int) -> Packing:
    """The lowest packing of the portfolio; stops at the first peak that is at most `good_enough` units."""
    portfolio = _portfolio(component)
    best = next(portfolio)
    while best.peak > good_enough and (packing := next(portfolio, None)) is not None:
        best = min(best, packing, key=lambda candidate: candidate.peak)
    return best


def _portfolio(component: Component) -> Iterator[Packing]:
    for order in body_orders(component):
        yield from (place_in_order(component, order, fit) for fit in FITS)
        yield raise_skyline(component, order)


def body_orders(component: Component) -> Iterator[Order]:
    """Permutations of the bodies, the most successful ones first: by section total, lifetime, area, height, start."""
    bodies = component.bodies
    sums = live_sums(bodies, component.n_cliques)
    total = [max(int(sums[rect.first : rect.last + 1].max()) for rect in body.rects) for body in bodies]
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-total[i], -bodies[i].lifetime, -bodies[i].area),
        lambda i: (-total[i], -bodies[i].area, -bodies[i].lifetime),
        lambda i: (-bodies[i].lifetime, -total[i], -bodies[i].area),
        lambda i: (-bodies[i].area,),
        lambda i: (bodies[i].rects[0].first, -bodies[i].lifetime),
        lambda i: (-bodies[i].height, -bodies[i].lifetime),
        lambda i: (-bodies[i].lifetime, -bodies[i].area),
    )
    for key in keys:
        yield sorted(range(len(bodies)), key=key)


def place_in_order(component: Component, order: Order, fit: Fit) -> Packing:
    """Place bodies one by one, the fixed ones first."""
    bodies = component.bodies
    bases = [0] * len(bodies)
    placed = np.empty((sum(len(body.rects) for body in bodies), 4), np.int64)
    n_placed = 0
    for i in sorted(order, key=lambda i: bodies[i].fixed is None):
        fixed = bodies[i].fixed
        bases[i] = fit(find_gaps(bodies[i], placed[:n_placed])) if fixed is None else fixed
        for rect in bodies[i].rects:
            placed[n_placed] = rect.first, rect.last, bases[i] + rect.low, bases[i] + rect.high
            n_placed += 1
    return packing_of(component, bases)


def raise_skyline(component: Component, order: Order) -> Packing:
    """Fill no holes: each step sets down the body that comes to rest lowest, the first in the order on ties."""
    bodies = component.bodies
    skyline = _Skyline(bodies)
    bases = [0] * len(bodies)
    waiting = np.ones(len(bodies), bool)
    rank = np.argsort(order)
    n_fixed = sum(body.fixed is not None for body in bodies)
    for i in sorted(order, key=lambda i: bodies[i].fixed is None)[:n_fixed]:
        bases[i] = bodies[i].lowest_base()
        skyline.add(bodies[i], bases[i])
        waiting[i] = False
    for _ in range(len(bodies) - n_fixed):
        rest = skyline.resting_bases()
        i = int(np.where(waiting, rest * len(bodies) + rank, FAR).argmin())
        bases[i] = int(rest[i])
        skyline.add(bodies[i], bases[i])
        waiting[i] = False
    return packing_of(component, bases)


class _Skyline:
    """The lowest base of each body above everything added so far."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        rects = [(rect.first, rect.last, rect.low, i) for i, body in enumerate(bodies) for rect in body.rects]
        self._first, self._last, self._low, self._owner = np.array(rects, np.int64).T.copy()
        self._support = np.zeros(len(bodies), np.int64)
        self._modulus = np.array([body.modulus for body in bodies])
        self._residue = np.array([body.residue for body in bodies])
        self._is_aligned = bool((self._modulus == 1).all())

    def add(self, body: Body, base: int) -> None:
        for rect in body.rects:
            meets = np.flatnonzero((self._first <= rect.last) & (self._last >= rect.first))
            np.maximum.at(self._support, self._owner[meets], base + rect.high - self._low[meets])

    def resting_bases(self) -> IntArray:
        if self._is_aligned:
            return self._support
        up: IntArray = (self._residue - self._support) % self._modulus
        return self._support + up


def find_gaps(body: Body, placed: IntArray) -> Gaps:
    """Where the body's base can go beside `placed` [n, 4]: first and last clique, low and high in units."""
    first, last, low, high = placed.T
    tops, floors = [], []
    for rect in body.rects:
        meets = (first <= rect.last) & (last >= rect.first)
        tops.append(low[meets] - rect.high)
        floors.append(high[meets] - rect.low)
    top = np.concatenate(tops)
    by_top = np.argsort(top, kind="stable")
    floor = np.maximum.accumulate(np.concatenate(([0], np.concatenate(floors)[by_top])))
    floor += (body.residue - floor) % body.modulus
    ceiling = np.append(top[by_top], FAR)
    fits = floor <= ceiling
    return Gaps(floor[fits], ceiling[fits])
