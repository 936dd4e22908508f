"""Constructive placements: several orders times several fits, the best one wins."""

from collections.abc import Iterator

import numpy as np

from npuc.allocation import greedy_kernel as kernel
from npuc.allocation.normal_form import Component, IntArray, live_sums
from npuc.allocation.packing import Packing, packing_of

Order = list[int]


def pack_greedily(component: Component, good_enough: int) -> Packing:
    """The lowest packing of the portfolio; stops at the first peak that is at most `good_enough` units."""
    portfolio = _portfolio(component)
    best = next(portfolio)
    while best.peak > good_enough and (packing := next(portfolio, None)) is not None:
        best = min(best, packing, key=lambda candidate: candidate.peak)
    return best


def _portfolio(component: Component) -> Iterator[Packing]:
    """First fit, best fit and lowest skyline by each order."""
    placer = Placer(component)
    for order in body_orders(component):
        yield placer.fill_gaps(order, is_tight=False)
        yield placer.fill_gaps(order, is_tight=True)
        yield placer.raise_skyline(order)


def body_orders(component: Component) -> Iterator[Order]:
    """Permutations of the bodies, the most successful ones first: by section total, lifetime, area, height, start."""
    rects, starts = component.rects, component.rect_start[:-1]
    first, last, low, high = rects.T
    total = -np.maximum.reduceat(_largest_inside(live_sums(rects, component.n_cliques), first, last), starts)
    area = -np.add.reduceat((last - first + 1) * (high - low), starts)
    lifetime = -np.array([body.lifetime for body in component.bodies], np.int64)
    keys: tuple[tuple[IntArray, ...], ...] = (
        (total, lifetime, area),
        (total, area, lifetime),
        (lifetime, total, area),
        (area,),
        (first[starts], lifetime),
        (-component.heights, lifetime),
        (lifetime, area),
    )
    for key in keys:
        yield np.lexsort(key[::-1]).tolist()


def _largest_inside(sums: IntArray, first: IntArray, last: IntArray) -> IntArray:
    """Largest of `sums` between each `first` and `last`, both included: of two runs of 2^k that cover the range."""
    runs = [sums]
    while 2 ** len(runs) <= len(sums):
        half = 2 ** (len(runs) - 1)
        runs.append(np.maximum(runs[-1][:-half], runs[-1][half:]))
    result = np.empty(len(first), np.int64)
    of_length = np.frexp(last - first + 1)[1] - 1
    for k in np.unique(of_length):
        mine = of_length == k
        result[mine] = np.maximum(runs[k][first[mine]], runs[k][last[mine] + 1 - 2**k])
    return result


class Placer:
    """A component as the kernels read it; they place the fixed bodies first."""

    def __init__(self, component: Component) -> None:
        bodies = component.bodies
        self._component = component
        fixed = [kernel.FREE if body.fixed is None else body.fixed for body in bodies]
        columns = [(body.modulus, body.residue, base) for body, base in zip(bodies, fixed, strict=True)]
        self._bodies = np.array(columns, np.int64)
        self._start, self._pairs = _pairs(component)
        self._gaps = np.zeros((2, int(np.diff(self._start).max())), np.int64)
        self._bases, self._place = np.zeros((2, len(bodies)), np.int64)
        self._rests = np.zeros(2 << (len(bodies) - 1).bit_length(), np.int64)

    def fill_gaps(self, order: Order, *, is_tight: bool) -> Packing:
        """First fit, or best fit when `is_tight`."""
        kernel.fill_gaps(
            self._fixed_first(order), self._bodies, self._start, self._pairs, is_tight, self._gaps, self._bases
        )
        return packing_of(self._component, self._bases.tolist())

    def raise_skyline(self, order: Order) -> Packing:
        """Each step sets down the body that comes to rest lowest."""
        kernel.raise_skyline(
            self._fixed_first(order), self._bodies, self._start, self._pairs, self._place, self._rests, self._bases
        )
        return packing_of(self._component, self._bases.tolist())

    def _fixed_first(self, order: Order) -> IntArray:
        found = np.array(order, np.int64)
        return found[np.argsort(self._bodies[found, kernel.FIXED] == kernel.FREE, kind="stable")]


def _pairs(component: Component) -> tuple[IntArray, IntArray]:
    """`pair_start` and `pairs` of the kernels."""
    rects, counts = component.rects, np.diff(component.rect_start)
    owner = np.repeat(np.arange(len(counts)), counts)
    order = np.argsort(rects[:, kernel.FIRST], kind="stable")
    stop = np.searchsorted(rects[order, kernel.FIRST], rects[order, kernel.LAST], side="right")
    start = np.zeros(len(counts) + 1, np.int64)
    kernel.pair_up(owner, order, stop, rects, start[1:], np.zeros((0, 3), np.int64))
    np.cumsum(start, out=start)
    pairs = np.zeros((start[-1], 3), np.int64)
    if len(pairs):
        kernel.pair_up(owner, order, stop, rects, start[:-1].copy(), pairs)
    return start, pairs
