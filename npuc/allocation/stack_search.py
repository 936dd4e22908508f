"""Exact search by stacking: the arrays of `stack_kernel.py` for a component, and searches that can be continued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npuc.allocation import stack_kernel as kernel
from npuc.allocation.greedy import Order
from npuc.allocation.normal_form import Component, IntArray, live_sums
from npuc.allocation.packing import Verdict, packing_of


@dataclass(frozen=True)
class Stacking:
    """A component as the kernel reads it."""

    component: Component

    @cached_property
    def bodies(self) -> IntArray:
        return np.array([(body.height, body.modulus, body.residue) for body in self.component.bodies], np.int64)

    @cached_property
    def rects(self) -> IntArray:
        return np.ascontiguousarray(self.component.rects[:, [0, 1, 3]])

    @property
    def rect_start(self) -> IntArray:
        return self.component.rect_start

    @cached_property
    def pairs(self) -> IntArray:
        """Columns: the lower body, the other body, how far the other must rest above the base of the lower."""
        n = len(self.component.bodies)
        first, last, high = self.rects.T
        owner = np.repeat(np.arange(n), np.diff(self.rect_start))
        i, j = np.nonzero((first[:, None] <= last) & (first <= last[:, None]) & (owner[:, None] != owner))
        keys, member = np.unique(owner[i] * n + owner[j], return_inverse=True)
        rise = np.zeros(len(keys), np.int64)
        np.maximum.at(rise, member, high[i])
        return np.stack([keys // n, keys % n, rise], axis=1)

    @cached_property
    def pair_start(self) -> IntArray:
        return np.searchsorted(self.pairs[:, 0], np.arange(len(self.component.bodies) + 1)).astype(np.int64)

    @cached_property
    def others(self) -> IntArray:
        return np.ascontiguousarray(self.pairs[:, 1:])

    @cached_property
    def live(self) -> IntArray:
        return live_sums(self.component.rects, self.component.n_cliques)


class StackSearch:
    """One search, or one after the other: the place where it stands between two slices of work."""

    def __init__(self, stacking: Stacking) -> None:
        n = len(stacking.component.bodies)
        self._stacking = stacking
        self._levels = np.zeros((n + 1, 5), np.int64)
        self._base, self._order, self._untried = (np.zeros((n + 1, n), np.int64) for _ in range(3))
        self._scratch = np.zeros(max(n, stacking.component.n_cliques) + 1, np.int64)

    def start(self, height: int, order: Order) -> None:
        """Begin a search for a packing of at most `height` units that prefers bodies early in the order."""
        n = len(order)
        self._height, self._depth = height, 0
        self._rank = np.empty(n, np.int64)
        self._rank[order] = np.arange(n)
        self._rest = self._stacking.live.copy()
        self._base[0] = self._stacking.bodies[:, kernel.RESIDUE]
        self._order[0] = np.argsort(self._base[0], kind="stable")
        self._levels[0] = (kernel.UNSEEN, 0, 0, 0, -1)

    def advance(self, n_nodes: int) -> Verdict:
        """Search on for at most n_nodes nodes; the work of the verdict is the nodes visited."""
        stacking = self._stacking
        outcome, self._depth, left = kernel.advance(
            self._height, n_nodes, self._depth, self._rank, stacking.bodies, stacking.rect_start, stacking.rects,
            stacking.pair_start, stacking.others, self._levels, self._base, self._order, self._untried, self._rest,
            self._scratch,
        )  # fmt: skip
        packing = packing_of(stacking.component, self._bases()) if outcome == kernel.FOUND else None
        return Verdict(packing, outcome == kernel.EXHAUSTED, n_nodes - left)

    def _bases(self) -> Sequence[int]:
        choices = self._levels[:-1, kernel.CHOICE]
        bases = np.empty(len(choices), np.int64)
        bases[choices] = self._base[np.arange(len(choices)), choices]
        return [int(base) for base in bases]
