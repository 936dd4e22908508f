"""Estimates of drafts against the same machine, followed task by task."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.target import Target
from isa.target_file import load_target
from isa.timing.compiled import IS_COMPILED
from npuc.lower.kernel import Kernel
from npuc.lower.operand import Operand
from npuc.schedule import follow_kernel
from npuc.schedule.blocks import Amounts, Choice
from npuc.schedule.draft import Draft
from npuc.schedule.estimate import DESCRIPTOR_BYTES, Course, follow, lower_bound
from npuc.schedule.parameters import ParameterUse
from npuc.schedule.tile_model import TILE_STREAM_BYTES
from npuc.task.task import Buffer, Compute

TARGETS = tuple(load_target(name) for name in ("u55-like", "edge-256"))
Given = tuple[Draft, list[ParameterUse], list[int], Target]


def operand(storage: str) -> Operand:
    return Operand(storage, 0, (1, 1, 1, 8), 0, 0, 0, 0, 8)


@st.composite
def drafts(draw: st.DrawFn) -> Given:
    """Tasks of a few kernels, loads in the order of first use and their earliest tasks."""
    names = st.sampled_from(("a", "b", "c", "d"))
    kernels = [
        Kernel(f"k{i}", draw(st.sampled_from(("mac.conv", "vec.add"))), (), operand(draw(names)), operand(draw(names)),
               operand(draw(names)))
        for i in range(draw(st.integers(1, 4)))
    ]  # fmt: skip
    computes, costs = [], []
    for _ in range(draw(st.integers(1, 40))):
        kernel = draw(st.sampled_from(kernels))
        one = range(1)
        computes.append(Compute(kernel.node, kernel.mnemonic, 0, one, one, range(8)))
        cycles, flash = draw(st.integers(1, 300)), draw(st.sampled_from((0, 0, 0, 50, 1000)))
        amounts = Amounts(draw(st.integers(0, cycles)), draw(st.integers(0, 200)), flash)
        costs.append(Choice((1, 1, 8), cycles, amounts, (1, 1, 8), replace(amounts, flash_bytes=0)))
    uses, earliest = [], [0]
    for i, first in enumerate(sorted(draw(st.lists(st.integers(0, len(computes) - 1), max_size=20)))):
        uses.append(ParameterUse(Buffer(f"p{i}", "parameters", draw(st.integers(1, 900))), first, first))
        earliest.append(max(earliest[-1], draw(st.integers(0, first))))
    return Draft(kernels, computes, [], frozenset(), costs, 0), uses, earliest[1:], draw(st.sampled_from(TARGETS))  # type: ignore[arg-type]


def bound_task_by_task(draft: Draft, uses: Sequence[ParameterUse], earliest: Sequence[int], target: Target) -> int:
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


@dataclass
class _Walk:
    """The machine while it runs a draft, one task after the other."""

    draft: Draft
    uses: Sequence[ParameterUse]
    earliest: Sequence[int]
    target: Target
    positions: list[int] = field(default_factory=list)
    ended_at: list[int] = field(default_factory=list)
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

    def __post_init__(self) -> None:
        self.reads = {kernel.node: kernel.reads for kernel in self.draft.kernels}
        self.writes = {kernel.node: kernel.ofm.storage for kernel in self.draft.kernels}

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
        self.ended_at.append(min(self.ended, i))

    def _compute(self, i: int) -> None:
        task, cost, rate = self.draft.computes[i], self.draft.costs[i], self.target.board.flash_bytes_per_cycle
        reads = (self.written.get(name, 0) for name in self.reads[task.kernel])
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
        self.written[self.writes[task.kernel]] = self.ends[i]


def followed(draft: Draft, uses: Sequence[ParameterUse], earliest: Sequence[int], target: Target) -> Course:
    walk = _Walk(draft, uses, earliest, target)
    for i in range(len(draft.computes)):
        walk.step(i)
    expected = max(walk.ends)
    if target.board.sram_shared_port:
        port = sum(cost.amounts.port_words for cost in draft.costs)
        loaded = sum(use.buffer.n_bytes for use in uses) // target.board.sram_read_bytes_per_cycle
        expected += loaded * min(port, expected) // max(expected, 1)
    return Course(expected, walk.positions, earliest, walk.ended_at)


@settings(max_examples=300)
@given(drafts())
def test_a_draft_is_followed_as_task_by_task(given: Given) -> None:
    assert follow(*given) == followed(*given)
    assert lower_bound(*given) == bound_task_by_task(*given)


@pytest.mark.skipif(not IS_COMPILED, reason="there is one variant only")
@settings(max_examples=10)
@given(drafts())
def test_estimates_are_the_same_uncompiled(given: Given) -> None:
    found = follow(*given), lower_bound(*given)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("follow", "least"):
            patch.setattr(follow_kernel, name, vars(follow_kernel)[name].py_func)
        assert (follow(*given), lower_bound(*given)) == found
