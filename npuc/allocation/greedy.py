"""Constructive placements: several orders times several fits, the best one wins."""

from collections.abc import Callable, Iterator
from functools import cached_property

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


class Placer:
    """A component as the kernels read it; they place the fixed bodies first."""

    def __init__(self, component: Component) -> None:
        bodies = component.bodies
        self._component = component
        fixed = [kernel.FREE if body.fixed is None else body.fixed for body in bodies]
        columns = [(body.modulus, body.residue, base) for body, base in zip(bodies, fixed, strict=True)]
        self._bodies = np.array(columns, np.int64)
        counts = [len(body.rects) for body in bodies]
        self._start = np.cumsum([0, *counts])
        rects = [(rect.first, rect.last, rect.low, rect.high) for body in bodies for rect in body.rects]
        self._rects = np.array(rects, np.int64)
        self._owner = np.repeat(np.arange(len(bodies)), counts)
        self._bases, self._support, self._waiting = np.zeros((3, len(bodies)), np.int64)

    @cached_property
    def _scratch(self) -> tuple[IntArray, IntArray, IntArray]:
        n_gaps = len(self._rects) * int(np.diff(self._start).max())
        return np.zeros((len(self._rects), 4), np.int64), *np.zeros((2, 2, n_gaps), np.int64)

    def fill_gaps(self, order: Order, *, is_tight: bool) -> Packing:
        """First fit, or best fit when `is_tight`."""
        kernel.fill_gaps(
            self._fixed_first(order), self._bodies, self._start, self._rects, is_tight, *self._scratch, self._bases
        )
        return packing_of(self._component, self._bases.tolist())

    def raise_skyline(self, order: Order) -> Packing:
        """Each step sets down the body that comes to rest lowest."""
        kernel.raise_skyline(
            self._fixed_first(order), self._bodies, self._start, self._rects, self._owner, self._support,
            self._waiting, self._bases,
        )  # fmt: skip
        return packing_of(self._component, self._bases.tolist())

    def _fixed_first(self, order: Order) -> IntArray:
        found = np.array(order, np.int64)
        return found[np.argsort(self._bodies[found, kernel.FIXED] == kernel.FREE, kind="stable")]
