"""How long a draft takes with its loads in given places, before it has addresses.

Flash delivers load after load. A load that memory keeps from coming earlier waits for the task in front of it to end:
the buffers that are live at that task leave no room for it, wherever they lie. A task waits for its unit, for its
parameters and, in an estimate, for what it reads. Without the last this is a bound: every placement takes longer.

An estimate also follows the fetcher. It hands instructions over in program order and stops at a full queue, and a load
that stands too early in the program keeps it from the tasks behind. So a load stands as late as the queues of its
followers allow: in front of a task for which the fetcher would have to wait anyway, or where the stream would stop.
Its memory is its own from when its bytes come, which is earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from isa.target import Target
from npuc.schedule.draft import Draft
from npuc.schedule.parameters import ParameterUse
from npuc.schedule.tile_model import TILE_STREAM_BYTES

DESCRIPTOR_BYTES = 72
"""Of a typical layer's descriptor, which comes through the same flash."""

CLAIMED_AHEAD = 4
"""Tasks by which a buffer is its load's own before the bytes are expected: what runs faster than expected then need not
keep the load waiting for memory."""


def lower_bound(draft: Draft, uses: Sequence[ParameterUse], earliest: Sequence[int], target: Target) -> int:
    """Cycles that the units and the flash need at least, with loads no sooner than memory and `earliest` allow."""
    rate = target.board.flash_bytes_per_cycle
    loaded, flash, at = [0] * (len(draft.computes) + 1), 0, 0
    ends: list[int] = []
    unit: dict[int, int] = {}
    for i, (task, cost) in enumerate(zip(draft.computes, draft.costs, strict=True)):
        while at < len(uses) and earliest[at] <= i:
            if i and earliest[at] > (earliest[at - 1] if at else 0):
                flash = max(flash, ends[i - 1])
            flash += uses[at].buffer.n_bytes // rate
            loaded[uses[at].first] = flash
            at += 1
        ends.append(max(unit.get(task.queue, 0), loaded[i]) + cost.least.roof_cycles)
        unit[task.queue] = ends[i]
    return max([*ends, draft.roof_cycles])


@dataclass(frozen=True)
class Course:
    """How a draft runs: expected cycles, the task before which each load stands in the program (`positions`), and the
    task from which its buffer is its own (`claims`)."""

    cycles: int
    positions: list[int]
    claims: list[int]


def follow(draft: Draft, uses: Sequence[ParameterUse], earliest: Sequence[int], target: Target) -> Course:
    """Run a draft whose loads may stand no earlier than before the tasks `earliest`."""
    walk = _Walk(draft, uses, earliest, target)
    for i in range(len(draft.computes)):
        walk.step(i)
    expected = max(walk.ends, default=0)
    if target.board.sram_shared_port:  # loads take the port from the units
        port = sum(cost.amounts.port_words for cost in draft.costs)
        loaded = sum(use.buffer.n_bytes for use in uses) // target.board.sram_read_bytes_per_cycle
        expected += loaded * min(port, expected) // max(expected, 1)
    return Course(expected, walk.positions, walk.claims)


@dataclass
class _Walk:
    """The machine while it runs a draft, one task after the other."""

    draft: Draft
    uses: Sequence[ParameterUse]
    earliest: Sequence[int]
    target: Target
    positions: list[int] = field(default_factory=list)
    claims: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    starts: dict[int, list[int]] = field(default_factory=dict)
    """Of the tasks of each queue."""
    load_starts: list[int] = field(default_factory=list)
    unit: dict[int, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    loaded: dict[int, int] = field(default_factory=dict)
    """By the first task that needs it, when a load is done."""
    flash: int = 0
    fetched: int = 0
    """When the fetcher handed over its last instruction."""
    ended: int = 0
    """Tasks that had ended, in order, when the last load began."""
    described: str = ""

    def step(self, i: int) -> None:
        """Loads in front of task i, and the task."""
        task = self.draft.computes[i]
        while self._next < len(self.uses) and self.uses[self._next].first <= i:
            self._load(i)
        handed = max(self.fetched, self._room(self.starts.get(task.queue, [])))
        while self._next < len(self.uses) and self._may_load(i, handed):
            self._load(i)
        self.fetched = max(self.fetched, handed)
        self._compute(i)

    @property
    def _next(self) -> int:
        return len(self.positions)

    def _room(self, starts: Sequence[int]) -> int:
        """When the queue has room for one more."""
        depth = self.target.costs.queue_depth
        return starts[-depth] if len(starts) >= depth else 0

    def _may_load(self, i: int, handed: int) -> bool:
        """Whether the next load costs task i no time: it has room in memory and in the queue before the task has, and
        the task waits for its own queue, or the stream would stop."""
        if self.earliest[self._next] > i or self._room(self.load_starts) > handed:
            return False
        return handed > self.fetched or self.flash <= handed

    def _load(self, i: int) -> None:
        at, use = self._next, self.uses[self._next]
        self.fetched = max(self.fetched, self._room(self.load_starts))
        start = max(self.flash, self.fetched)
        held = self.earliest[at]
        if held and held > (self.earliest[at - 1] if at else 0):
            start = max(start, self.ends[held - 1])
        while self.ended < i and self.ends[self.ended] <= start:
            self.ended += 1
        self.load_starts.append(start)
        self.flash = start + use.buffer.n_bytes // self.target.board.flash_bytes_per_cycle
        self.loaded[use.first] = self.flash
        self.positions.append(i)
        self.claims.append(max(held, min(self.ended, i) - CLAIMED_AHEAD))

    def _compute(self, i: int) -> None:
        task, cost, rate = self.draft.computes[i], self.draft.costs[i], self.target.board.flash_bytes_per_cycle
        reads = (self.written.get(name, 0) for name in self.draft.reads[task.kernel])
        start = max([self.unit.get(task.queue, 0), self.loaded.get(i, 0), *reads])
        self.flash += (TILE_STREAM_BYTES + (DESCRIPTOR_BYTES if task.kernel != self.described else 0)) // rate
        self.described = task.kernel
        read = cost.amounts.flash_bytes // rate
        if read:  # loads take half of the flash meanwhile
            self.flash = max(self.flash, start) + read
            start = max(start, min(self.flash, start + 2 * read) - cost.cycles)
        self.ends.append(start + cost.cycles)
        self.starts.setdefault(task.queue, []).append(start)
        self.unit[task.queue] = self.ends[i]
        self.written[self.draft.writes[task.kernel]] = self.ends[i]
