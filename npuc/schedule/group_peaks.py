"""Peak memory of groups, each worked out once.

What is live while a group runs depends on the group alone: other kernels are before it or behind it. A storage lives
through the whole group, or from its first step there, or to its last step there; so peaks add up without looking at the
rest of the network, and a search that tries many groupings looks at the same groups again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from npuc.lower.kernel import PARAMETERS
from npuc.schedule.memory import Storage, aligned, live_of
from npuc.schedule.stripes import Group, StripeBook


@dataclass(frozen=True)
class _Span:
    """First and last kernel that need a storage; an input is needed before all, an output behind all."""

    first: int
    last: int


class GroupPeaks:
    """Peak bytes of activations while a group runs."""

    def __init__(self, book: StripeBook, storages: Mapping[str, Storage]) -> None:
        self.book, self._storages = book, storages
        self._touched = [{kernel.ofm.storage, *kernel.reads} - {PARAMETERS} for kernel in book.kernels]
        self._spans = _spans(self._touched, storages)
        names = list(self._spans)
        self._first = np.array([self._spans[name].first for name in names], np.int64)
        self._last = np.array([self._spans[name].last for name in names], np.int64)
        self._bytes = np.array([aligned(storages[name].n_bytes) for name in names], np.int64)
        self._known: dict[Group, int] = {}

    def of(self, group: Group) -> int:
        """Largest number of bytes live at one step of the group."""
        if group not in self._known:
            self._known[group] = self._peak(group)
        return self._known[group]

    def between(self, i: int) -> int:
        """Bytes of all that is needed whole between kernel i - 1 and kernel i."""
        return int(self._bytes[(self._first < i) & (self._last >= i)].sum())

    def n_steps(self, group: Group) -> int:
        """Steps in which the group runs."""
        return len(self.book.steps(group))

    def n_parts(self, group: Group) -> int:
        """Stripes or slices of the group."""
        channels = self.book.kernels[group.start].space[3]
        return -(-channels // group.channels) if group.channels else group.stripes

    def _peak(self, group: Group) -> int:
        whole = int(self._bytes[(self._first < group.start) & (self._last >= group.stop)].sum())
        steps = self.book.steps(group)
        begin: dict[str, int] = {}
        end: dict[str, int] = {}
        for position, step in enumerate(steps):
            for name in self._touched[step.kernel]:
                begin.setdefault(name, position)
                end[name] = position
        change = np.zeros(len(steps) + 1, np.int64)
        for name, first in begin.items():
            span = self._spans[name]
            before, behind = span.first < group.start, span.last >= group.stop
            if before and behind:
                continue
            kept = self._storages[name].is_input or self._storages[name].is_output
            n_bytes = live_of(self.book, self._storages[name], 0, 0, None if kept else group).n_bytes
            change[0 if before else first] += n_bytes
            if not behind:
                change[end[name] + 1] -= n_bytes
        return whole + int(np.cumsum(change)[:-1].max(initial=0))


def _spans(touched: list[set[str]], storages: Mapping[str, Storage]) -> dict[str, _Span]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for i, names in enumerate(touched):
        for name in names:
            first.setdefault(name, i)
            last[name] = i
    spans = {}
    for name, storage in storages.items():
        begin = -1 if storage.is_input else first.get(name, len(touched) - 1 if storage.is_output else 0)
        end = len(touched) if storage.is_output else last.get(name, 0)
        spans[name] = _Span(begin, end)
    return spans
