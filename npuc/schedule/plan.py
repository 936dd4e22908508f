"""The search: groups, tiles and load order in, a plan with SRAM addresses out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from isa.target import Target
from npuc.allocation import Buffer as Range
from npuc.allocation import CapacityExceeded, Placement, Problem, allocate
from npuc.errors import DoesNotFit
from npuc.lower.coding import WeightCoder
from npuc.lower.kernel import Kernel
from npuc.schedule.grouping import choose_groups
from npuc.schedule.memory import Live, Storage, aligned, expand_all, live_ranges, profile
from npuc.schedule.parameters import ParameterUse, earliest, interleave, misfits, pack_buffers, place_loads
from npuc.schedule.policy import SEARCH, Policy
from npuc.schedule.stripes import Group, Step, StripeBook
from npuc.schedule.tile_model import choose_tiles
from npuc.schedule.tiles import Blocks, Tiling, tile_tasks, tilings
from npuc.task.task import Buffer, Load, Plan, Work, channel_cuts
from npuc.task.text import Scheduled

LOG = logging.getLogger("npuc.schedule")

LARGEST_BUFFERS = (4096, 16384, 65536, 262144)
"""Largest parameters buffers that are tried, in bytes."""

QUICK_EFFORT = 0.1
"""Effort of the allocator for candidates; the plan that is kept gets the whole effort."""


@dataclass(frozen=True)
class Search:
    """What a search is about: kernels in order, their storages, the machine and the SRAM to use."""

    kernels: Sequence[Kernel]
    """With raw weights."""
    storages: Mapping[str, Storage]
    target: Target
    capacity_bytes: int
    judge: Callable[[Plan], int]
    """Exact cycles of a placed plan."""
    policy: Policy = SEARCH


@dataclass(frozen=True)
class Draft:
    """Kernels with their weights coded for the tasks, tasks, and live ranges before addresses are known."""

    kernels: list[Kernel]
    computes: list[Work]
    lives: list[Live]
    streamed: frozenset[str]


def schedule(search: Search, optimize: str = "latency") -> Scheduled:
    """The best plan found within the capacity: fewest cycles, or for "memory" the smallest peak.

    DoesNotFit names what is live at the peak when nothing fits.
    """
    best, failure = _best(search, optimize)
    if best is None:
        raise _does_not_fit(failure, search.capacity_bytes)
    return _certify(best)


@dataclass(frozen=True)
class Candidate:
    """A placed plan and the allocation problem that it solves."""

    cycles: int
    peak_bytes: int
    problem: Problem
    plan: Plan

    def key(self, optimize: str) -> tuple[int, int]:
        """What makes one candidate better than another: smaller is better."""
        return (self.cycles, self.peak_bytes) if optimize == "latency" else (self.peak_bytes, self.cycles)


def _best(search: Search, optimize: str) -> tuple[Candidate | None, CapacityExceeded | None]:
    best: Candidate | None = None
    failure: CapacityExceeded | None = None
    for draft in _drafts(search, optimize):
        one = len(draft.streamed) == len(search.kernels) or not search.policy.shared_buffers
        for largest in LARGEST_BUFFERS[:1] if one else LARGEST_BUFFERS:
            try:
                problem, plan, placement = _place(search, draft, largest)
            except CapacityExceeded as error:
                if failure is None or error.needed_bytes < failure.needed_bytes:
                    failure = error
                continue
            found = Candidate(search.judge(plan), placement.peak_bytes, problem, plan)
            LOG.info("candidate: %d cycles, peak %d bytes", found.cycles, found.peak_bytes)
            if best is None or found.key(optimize) < best.key(optimize):
                best = found
    return best, failure


def _certify(candidate: Candidate) -> Scheduled:
    """The plan with the best addresses that the allocator finds and their proof."""
    placement, plan = allocate(candidate.problem), candidate.plan
    placed = tuple(replace(buffer, address=placement.offsets[buffer.name]) for buffer in plan.buffers)
    return Scheduled(replace(plan, buffers=placed), placement.peak_bytes, placement.bound_bytes, placement.status)


def _drafts(search: Search, optimize: str) -> Iterator[Draft]:
    seen: set[tuple[tuple[Group, ...], frozenset[str]]] = set()
    coder = WeightCoder(search.kernels)
    kernels, capacity = coder.whole(), search.capacity_bytes
    total = sum(aligned(kernel.parameters.n_bytes) for kernel in kernels if not kernel.shares)
    everything = frozenset(kernel.owner for kernel in kernels)
    blocks, book = Blocks(search.target), StripeBook(kernels)
    for reserve in search.policy.reserves if optimize == "latency" else (0.0,):
        room = capacity - int(reserve * min(total, capacity)) if optimize == "latency" else 0
        groups = choose_groups(book, search.storages, room)
        streamed = everything if optimize == "memory" else frozenset[str]()
        while (tuple(groups), streamed) not in seen:
            seen.add((tuple(groups), streamed))
            draft = _draft(search, coder, book, groups, streamed, blocks)
            uses = pack_buffers(draft.kernels, draft.computes, LARGEST_BUFFERS[0], streamed, search.policy)
            too_large = misfits(uses, profile(draft.lives, len(draft.computes)), capacity)
            if not too_large:
                yield draft
            streamed |= too_large


def _draft(
    search: Search,
    coder: WeightCoder,
    book: StripeBook,
    groups: Sequence[Group],
    streamed: frozenset[str],
    blocks: Blocks,
) -> Draft:
    kernels = book.kernels
    steps, owner = expand_all(book, groups)
    computes, spans = _compute_tasks(search, kernels, groups, steps, owner, streamed, blocks)
    cuts = channel_cuts(computes)
    coded = [coder.code(kernel.node, cuts.get(kernel.node, ())) for kernel in kernels]
    lives = _over_tasks(live_ranges(book, search.storages, groups, steps, owner), spans)
    return Draft(coded, computes, lives, streamed)


def _compute_tasks(
    search: Search,
    kernels: Sequence[Kernel],
    groups: Sequence[Group],
    steps: Sequence[Step],
    owner: Sequence[int],
    streamed: Set[str],
    blocks: Blocks,
) -> tuple[list[Work], list[range]]:
    """Compute tasks of all steps, and the task positions of each step."""
    whole = {step.kernel for step, of in zip(steps, owner, strict=True) if groups[of].stripes == 1}
    order = list(dict.fromkeys(step.kernel for step in steps))
    candidates = []
    for i in order:
        limit = search.capacity_bytes // 8 if i in whole else search.capacity_bytes
        rows, is_streamed = range(kernels[i].space[1]), kernels[i].owner in streamed
        found = tilings(kernels[i], search.target, limit, rows, blocks, streamed=is_streamed)
        candidates.append(_allowed(kernels[i], found, search.policy) if i in whole else found[:1])
    chosen = choose_tiles([kernels[i] for i in order], candidates)
    cut = {kernels[i].node: tiling.channels for i, tiling in zip(order, chosen, strict=True)}
    channels = {i: cut[kernels[i].owner] for i in order}
    tasks: list[Work] = []
    spans = []
    for step in steps:
        kernel = kernels[step.kernel]
        part = tile_tasks(kernel, step.y, channels[step.kernel], blocks, streamed=kernel.owner in streamed)
        spans.append(range(len(tasks), len(tasks) + len(part)))
        tasks += part
    return tasks, spans


def _allowed(kernel: Kernel, found: list[Tiling], policy: Policy) -> list[Tiling]:
    """The tilings that a policy may choose from."""
    if policy.tile_bytes is None:
        return found
    per_channel = kernel.parameters.weight_channel_bytes
    fitting = [tiling for tiling in found if tiling.channels * per_channel <= policy.tile_bytes]
    return fitting[:1] or found[-1:]


def _over_tasks(lives: Sequence[Live], spans: Sequence[range]) -> list[Live]:
    if not spans:
        return [replace(live, first=0, last=0) for live in lives]
    return [replace(live, first=spans[live.first].start, last=spans[live.last].stop - 1) for live in lives]


def _place(search: Search, draft: Draft, largest_bytes: int) -> tuple[Problem, Plan, Placement]:
    """Addresses for a draft; loads move later until everything fits, CapacityExceeded when that is not enough."""
    computes, capacity = draft.computes, search.capacity_bytes
    uses = pack_buffers(draft.kernels, computes, largest_bytes, draft.streamed, search.policy)
    limits = earliest(uses, computes, search.policy)
    live, room = profile(draft.lives, len(computes)), capacity
    while True:
        positions = place_loads(uses, live, room, limits)
        problem = _problem(computes, uses, positions, draft.lives, capacity)
        try:
            placement = allocate(problem, QUICK_EFFORT)
            break
        except CapacityExceeded:
            if all(position == use.first for position, use in zip(positions, uses, strict=True)):
                raise
            room -= max(capacity // 32, 1)
    buffers = [Buffer(item.name, "activation", item.n_bytes, item.ring_rows) for item in draft.lives]
    buffers += [use.buffer for use in uses]
    placed = tuple(replace(buffer, address=placement.offsets[buffer.name]) for buffer in buffers)
    tasks = tuple(interleave(computes, uses, positions))
    return problem, Plan({kernel.node: kernel for kernel in draft.kernels}, placed, tasks, draft.streamed), placement


def _problem(
    computes: Sequence[Work],
    uses: Sequence[ParameterUse],
    positions: Sequence[int],
    lives: Sequence[Live],
    capacity_bytes: int,
) -> Problem:
    """Live ranges over program order: loads count as tasks."""
    tasks = interleave(computes, uses, positions)
    at = [i for i, task in enumerate(tasks) if not isinstance(task, Load)] or [0]
    loads = {task.buffer: i for i, task in enumerate(tasks) if isinstance(task, Load)}
    ranges = [
        Range(item.name, 0 if item.first == 0 else at[item.first], at[item.last] + 1, aligned(item.n_bytes), 16)
        for item in lives
    ]
    ranges += [
        Range(use.buffer.name, loads[use.buffer.name], at[use.last] + 1, aligned(use.buffer.n_bytes), 16)
        for use in uses
    ]
    return Problem(tuple(ranges), capacity_bytes)


def _does_not_fit(failure: CapacityExceeded | None, capacity_bytes: int) -> DoesNotFit:
    if failure is None:
        return DoesNotFit(f"nothing to schedule within {capacity_bytes} bytes", stage="schedule")
    live = ", ".join(f"{name} {size}" for name, size in sorted(failure.live, key=lambda item: (-item[1], item[0]))[:6])
    return DoesNotFit(
        f"needs {failure.needed_bytes} bytes of sram, available {capacity_bytes}, "
        f"excess {failure.needed_bytes - capacity_bytes}; live at the peak: {live}",
        stage="schedule",
        hint=f"compile with --sram {failure.needed_bytes}, or choose a target with more sram",
    )
