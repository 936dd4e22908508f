"""The search: groups, tiles and load order in, a plan with SRAM addresses out.

Candidates are made for a fixed ladder of capacities, and a budget may use every candidate that fits it. A larger budget
has all candidates of a smaller one, so that more SRAM never gives a slower program. What is judged is decided by bounds
that hold for every placement of a draft, so that leaving a candidate out never changes the answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from isa.target import Energy, Target
from npuc.allocation import CapacityExceeded, live_at_peak
from npuc.errors import DoesNotFit
from npuc.lower.kernel import ALIGNMENT, Kernel
from npuc.schedule.candidate import Candidate, Judge, certify, least, most, proven
from npuc.schedule.cheap_groups import cheapest_groups, lower_groups
from npuc.schedule.draft import Draft, Drafter
from npuc.schedule.energy import least_picojoules
from npuc.schedule.estimate import follow, lower_bound
from npuc.schedule.grouping import choose_groups
from npuc.schedule.memory import Storage
from npuc.schedule.parameters import ParameterUse, earliest, misfits, needed_bytes, place_loads
from npuc.schedule.place import Earliest, Placed, place
from npuc.schedule.policy import SEARCH, Policy
from npuc.schedule.ranges import with_spare
from npuc.schedule.slices import slice_sizes
from npuc.schedule.stripes import Group
from npuc.task.task import Plan
from npuc.task.text import Scheduled

LOG = logging.getLogger("npuc.schedule")

RUNGS_PER_OCTAVE = 4
"""Capacities on the ladder between a number and its double."""

STEPS, SMALLER_PARTS = 16, (15, 14, 13)
"""Parts of a capacity, and numbers of them between it and the next below."""

MOST_OPTIONS, MOST_TASKS = 8, 2000
"""Options of a capacity that are given addresses and judged, and tasks of them all together."""

MOST_IN_RANGES = 4
"""Options of a capacity with kernels in ranges that are judged beside those."""

WORST = 1.15
"""How much more than the best option another may be expected to take."""

PROOF_EFFORT = 0.1
"""Of the allocator, for the peak of the fastest plan: it fits, and a smaller peak would not make it faster."""


@dataclass(frozen=True)
class Search:
    """What a search is about: kernels in order, their storages, the machine and the SRAM to use."""

    kernels: Sequence[Kernel]
    """With raw weights."""
    storages: Mapping[str, Storage]
    target: Target
    capacity_bytes: int
    judge: Judge
    """In cycles, or with `energy` in picojoules."""
    policy: Policy = SEARCH
    energy: Energy | None = None
    """Picojoules count in place of cycles."""


@dataclass(frozen=True)
class Option:
    """A draft with its parameters in buffers: cycles and costs (cycles, or picojoules), as expected and at least."""

    expected_cycles: int
    bound_cycles: int
    expected_cost: int
    bound_cost: int
    draft: Draft
    uses: tuple[ParameterUse, ...]
    limits: list[int]


def schedule(search: Search, optimize: str = "latency", most_cycles: int | None = None) -> Scheduled:
    """The best plan found within the capacity: least cost (cycles, or with `search.energy` picojoules), or for "memory"
    the smallest peak.

    With `most_cycles` it is the plan of the smallest peak that takes no more. DoesNotFit names what is live at the peak
    when nothing fits, and the fastest plan when none is fast enough.
    """
    run, smallest = _start(search)
    if most_cycles is not None:
        return certify(_within(run.front(smallest), most_cycles), search.judge, 1.0)
    if optimize == "memory":
        return certify(smallest, search.judge, 1.0)
    return certify(run.fastest(smallest), search.judge, PROOF_EFFORT)


def front(search: Search) -> list[Candidate]:
    """The candidates that no other beats in both SRAM and cycles, least SRAM first.

    Each is what `schedule` finds within its SRAM.
    """
    run, smallest = _start(search)
    return run.front(smallest)


def _start(search: Search) -> tuple[_Run, Candidate]:
    run = _Run(search)
    smallest = run.smallest()
    if smallest.peak_bytes > search.capacity_bytes:
        raise _does_not_fit(smallest, search.capacity_bytes)
    return run, smallest


def _within(candidates: Sequence[Candidate], most_cycles: int) -> Candidate:
    for candidate in candidates:
        if candidate.cost <= most_cycles:
            return candidate
    fastest = candidates[-1]
    raise DoesNotFit(
        f"no schedule of at most {most_cycles} cycles was found, the fastest takes {fastest.cost} "
        f"with {fastest.sram_bytes} bytes of sram",
        stage="schedule",
        hint=f"allow {fastest.cost} cycles with --cycles, or choose a faster target",
    )


def rungs(lowest_bytes: int, highest_bytes: int, others: Iterable[int] = ()) -> list[int]:
    """Capacities of the ladder, descending: the same numbers for every network, the lowest itself and `others` of the
    network.

    The first is the next above the highest: much that is made for it needs less.
    """
    found = {lowest_bytes, *(other for other in others if other > lowest_bytes)}
    step = 0
    while max(found) < highest_bytes or _rung(step) < max(found):
        if _rung(step) > lowest_bytes:
            found.add(_rung(step))
        step += 1
    top = min((capacity for capacity in found if capacity >= highest_bytes), default=lowest_bytes)
    return sorted((capacity for capacity in found if capacity <= top), reverse=True)


def _rung(step: int) -> int:
    """2^(10 + step / RUNGS_PER_OCTAVE) in units of the alignment, from integers alone."""
    octave, part = divmod(step, RUNGS_PER_OCTAVE)
    return (_PARTS[part] << octave) // 16 * 16


_PARTS = (1024, 1217, 1448, 1722)
"""1024 times 2^(i / RUNGS_PER_OCTAVE)."""


DraftKey = tuple[tuple[Group, ...], frozenset[str], int, bool, bool, bool]
"""Groups, streamed parameters, bytes of a tile, whether more may be streamed, whether the port counts in that, whether
kernels are in ranges."""


@dataclass
class _Run:
    """One search: the drafts made, the best candidate."""

    search: Search
    drafter: Drafter = field(init=False)
    slices: tuple[int, ...] = field(init=False)
    """Channels of a slice that are tried."""
    lowest: list[int] = field(default_factory=list)
    """Peaks of the smallest ways to group the kernels: capacities, too, as those of the ladder lie far apart."""
    groups: dict[tuple[int, tuple[int, ...]], tuple[Group, ...]] = field(default_factory=dict)
    cheapest: dict[tuple[int, int, tuple[int, ...]], tuple[Group, ...]] = field(default_factory=dict)
    drafts: dict[DraftKey, Draft] = field(default_factory=dict)
    placed: dict[tuple[int, tuple[ParameterUse, ...]], dict[Earliest, Placed]] = field(default_factory=dict)
    judged: dict[Placed, Candidate] = field(default_factory=dict)
    proofs: dict[Placed, Candidate] = field(default_factory=dict)
    interned: dict[Hashable, Draft] = field(default_factory=dict)

    def __post_init__(self) -> None:
        search = self.search
        self.drafter = Drafter(search.kernels, search.storages, search.target, search.policy)
        self.slices = slice_sizes(search.target) if search.policy.slices else ()

    def smallest(self) -> Candidate:
        """Everything stays in flash, and stripes are made until no merge lowers a peak."""
        everything = frozenset(kernel.owner for kernel in self.search.kernels)
        found = []
        for groups in self._smallest_groups():
            draft = self._draft(groups, everything, 0, may_stream=False)
            found.append(self._judge(place(draft, [], [], 1 << 40, self.search.target)))
        self.lowest = [candidate.peak_bytes for candidate in found]
        return min(found, key=lambda candidate: (candidate.peak_bytes, candidate.cost))

    def _smallest_groups(self) -> list[tuple[Group, ...]]:
        """Groups of the lowest peaks: as merging finds them, and what needs less."""
        kernels, peaks = self.drafter.book.kernels, self.drafter.peaks
        found = [self._groups(0, slices) for slices in dict.fromkeys((self.slices, ()))]
        if self.search.policy.has_ladder:
            lowest = min(max(map(peaks.of, groups), default=0) for groups in found)
            found += map(tuple, lower_groups(kernels, peaks, lowest, self.slices))
        return list(dict.fromkeys(found))

    def fastest(self, smallest: Candidate) -> Candidate:
        """The candidate of least cost; of those one with a proof, of the smallest peak.

        Options and candidates are left out when they cannot be better, whatever a proof may change.
        """
        search, ladder = self.search, self.search.policy.has_ladder
        found = [smallest] if ladder else []
        highest = search.capacity_bytes
        capacities = rungs(smallest.peak_bytes, highest, self.lowest) if ladder else [highest]
        for capacity, below in zip(capacities, [*capacities[1:], 0 if ladder else capacities[0]], strict=True):
            for option in self._options(capacity):
                if not found or least(option.bound_cost) < most(found[0].cost):
                    tries = self._tries(option, capacity, below)
                    found += [candidate for candidate in tries if candidate.peak_bytes <= search.capacity_bytes]
                    found.sort(key=lambda candidate: candidate.key)
        LOG.info("%d drafts, %d candidates", len(self.drafts), len(self.judged))
        best: Candidate | None = None
        for candidate in found or [smallest]:
            if best is not None and least(candidate.cost) >= best.cost:
                break
            better = self._proven(candidate)
            best = better if best is None else min(best, better, key=lambda item: item.key)
        return best or smallest

    def front(self, smallest: Candidate) -> list[Candidate]:
        """Candidates of falling cost, by rising SRAM.

        An option is left out when, whatever a proof may change, it is no better than a candidate that needs no more
        memory than it.
        """
        found, highest = [smallest], self.search.capacity_bytes
        ladder = rungs(smallest.peak_bytes, highest, self.lowest)
        for capacity, below in zip(ladder, [*ladder[1:], 0], strict=True):
            least_bytes = below + ALIGNMENT if below else 0  # a smaller budget does not look at this capacity
            for option in self._options(capacity):
                needed, cost = max(int(option.draft.live.max(initial=0)), least_bytes), least(option.bound_cost)
                if any(other.sram_bytes <= needed and most(other.cost) <= cost for other in found):
                    continue
                found += [
                    replace(candidate, sram_bytes=max(candidate.peak_bytes, least_bytes))
                    for candidate in self._tries(option, capacity, below)
                    if candidate.peak_bytes <= highest
                ]
        best: list[Candidate] = []
        for candidate in sorted(found, key=lambda item: (item.sram_bytes, item.cost)):
            if best and least(candidate.cost) >= best[-1].cost:
                continue
            better = self._proven(candidate)
            if best and better.cost < best[-1].cost and better.sram_bytes == best[-1].sram_bytes:
                best.pop()
            if not best or better.cost < best[-1].cost:
                best.append(better)
        return best

    def _options(self, capacity: int) -> list[Option]:
        """The most promising ways to use a capacity."""
        plain = _promising(self._loaded(self._drafts(capacity), capacity))
        if not self.search.policy.in_ranges or self.search.target.board.sram_shared_port:  # times are too short there
            return plain
        return [*plain, *_promising(self._loaded(self._in_ranges(plain, capacity), capacity))[:MOST_IN_RANGES]]

    def _loaded(self, drafts: Iterable[Draft], capacity: int) -> list[Option]:
        """Drafts with their parameters in buffers, of each size."""
        found: dict[tuple[int, tuple[ParameterUse, ...]], Option] = {}
        for draft in drafts:
            for sizes in self.search.policy.buffers:
                uses = draft.packed(*sizes)
                if (id(draft), uses) in found:
                    continue
                limits = earliest(uses, draft.computes, self.search.policy)
                loads = place_loads(uses, draft.live, capacity, limits)
                bound = lower_bound(draft, uses, loads, self.search.target)
                expected = follow(draft, uses, loads, self.search.target).cycles
                cost, cost_bound = (self._cost(draft, uses, cycles) for cycles in (expected, bound))
                found[id(draft), uses] = Option(expected, bound, cost, cost_bound, draft, uses, limits)
        return list(found.values())

    def _in_ranges(self, options: Sequence[Option], capacity: int) -> Iterator[Draft]:
        """The drafts of the options with kernels in ranges of rows and room to spare in line buffers, where that makes
        a difference and fits."""
        keys = {id(draft): key for key, draft in reversed(self.drafts.items()) if not key[-1]}
        for draft in {id(option.draft): option.draft for option in options}.values():
            groups, streamed, _, may_stream, port_counts, _ = keys[id(draft)]
            spared = (with_spare(self.drafter.book.kernels, groups, finer) for finer in (2, 1))
            for chosen in dict.fromkeys((*spared, groups)):
                other = self._draft(
                    chosen, streamed, capacity, may_stream=may_stream, port_counts=port_counts, in_ranges=True
                )
                uses = other.packed(*self.search.policy.buffers[0])
                if other is not draft and needed_bytes(uses, other.live) <= capacity:
                    yield other

    def _cost(self, draft: Draft, uses: Sequence[ParameterUse], cycles: int) -> int:
        """Of a draft that runs for some cycles."""
        energy = self.search.energy
        return cycles if energy is None else least_picojoules(draft, uses, cycles, energy)

    def _tries(self, option: Option, capacity: int, below: int) -> Iterator[Candidate]:
        """The option with addresses; one that needs more than the capacity below this also in steps towards that, as a
        budget between the two cannot use what fills the larger."""
        needed, rooms = needed_bytes(option.uses, option.draft.live), [capacity]
        if needed > below:
            smaller = [capacity * part // STEPS // ALIGNMENT * ALIGNMENT for part in SMALLER_PARTS]
            rooms += [room for room in smaller if room >= needed]
        for room in rooms:
            found = self._try(option, room)
            if found is not None:
                yield found

    def _try(self, option: Option, capacity: int) -> Candidate | None:
        """The option with addresses; None when it does not fit."""
        known = self.placed.setdefault((id(option.draft), option.uses), {})
        try:
            return self._judge(place(option.draft, option.uses, option.limits, capacity, self.search.target, known))
        except CapacityExceeded:
            return None

    def _drafts(self, capacity: int) -> Iterator[Draft]:
        """Drafts whose parameters find room, at least while they are used, within a capacity."""
        policy, total = self.search.policy, self.drafter.parameter_bytes
        seen: set[tuple[tuple[Group, ...], frozenset[str], bool, bool]] = set()
        shared = self.search.target.board.sram_shared_port
        ways = dict.fromkeys((s, s and p and shared) for s in policy.streams for p in policy.port_counts)
        rooms = [capacity - int(reserve * min(total, capacity)) for reserve in policy.reserves]
        for groups in dict.fromkeys(found for room in rooms for found in self._groupings(room, capacity)):
            for may_stream, port_counts in ways:
                streamed = self.drafter.dense if policy.streams_dense else frozenset()
                while (groups, streamed, may_stream, port_counts) not in seen:
                    seen.add((groups, streamed, may_stream, port_counts))
                    draft = self._draft(groups, streamed, capacity, may_stream=may_stream, port_counts=port_counts)
                    too_large = misfits(draft.packed(*policy.buffers[0]), draft.live, capacity)
                    if not too_large:
                        yield draft
                    streamed |= too_large

    def _groupings(self, room: int, capacity: int) -> list[tuple[Group, ...]]:
        """Groups that fit a room: with the lowest peaks in stripes, and with the fewest bytes read again, in stripes
        alone, too, where slices are among them."""
        lowest = self._groups(room, ())
        if not self.search.policy.has_ladder or all(group.is_whole for group in lowest):
            return [lowest]
        cheapest = self._cheapest_groups(room, capacity, self.slices)
        if not any(group.channels for group in cheapest):
            return [lowest, cheapest]
        return [lowest, cheapest, self._cheapest_groups(room, capacity, ())]

    def _cheapest_groups(self, room: int, capacity: int, slices: tuple[int, ...]) -> tuple[Group, ...]:
        key = room, capacity, slices
        if key not in self.cheapest:
            found = cheapest_groups(self.drafter.book.kernels, self.drafter.peaks, room, capacity, slices)
            self.cheapest[key] = tuple(found) if found else self._groups(room, slices)
        return self.cheapest[key]

    def _groups(self, room: int, slices: tuple[int, ...]) -> tuple[Group, ...]:
        if (room, slices) not in self.groups:
            found = choose_groups(self.drafter.book.kernels, self.drafter.peaks, room, slices)
            self.groups[room, slices] = tuple(found)
        return self.groups[room, slices]

    def _draft(
        self,
        groups: tuple[Group, ...],
        streamed: frozenset[str],
        capacity: int,
        *,
        may_stream: bool,
        port_counts: bool = False,
        in_ranges: bool = False,
    ) -> Draft:
        limit = self._largest_tile(capacity)
        key = (groups, streamed, limit, may_stream, port_counts, in_ranges)
        if key not in self.drafts:
            draft = self.drafter.draft(
                groups, streamed, limit, may_stream=may_stream, port_counts=port_counts, in_ranges=in_ranges
            )
            content = (tuple(draft.computes), tuple(draft.lives), draft.streamed)
            self.drafts[key] = self.interned.setdefault(content, draft)
        return self.drafts[key]

    def _largest_tile(self, capacity: int) -> int:
        """Bytes of weights that a tile may have: an eighth of the memory, rounded so that capacities share drafts."""
        return min(1 << max((capacity // 8).bit_length() - 1, 0), self.drafter.largest_parameters)

    def _judge(self, placed: Placed) -> Candidate:
        if placed in self.judged:
            return self.judged[placed]
        policy, peak = self.search.policy, placed.placement.peak_bytes
        cost, plan = self._cheapest([replace(placed.plan, descriptors_wait=wait) for wait in policy.descriptors_wait])
        if policy.may_be_crowded and placed.crowded != plan.tasks:
            crowded = self._cheapest([replace(plan, tasks=placed.crowded)])
            cost, plan = min((cost, plan), crowded, key=lambda item: item[0])
        found = self.judged[placed] = Candidate(cost, peak, peak, replace(placed, plan=plan))
        LOG.info("candidate: cost %d, peak %d bytes", found.cost, found.peak_bytes)
        return found

    def _proven(self, candidate: Candidate) -> Candidate:
        """With addresses of proven peak where there are any; for the same budgets."""
        if candidate.placed not in self.proofs:
            self.proofs[candidate.placed] = proven(candidate, self.search.judge)
        return replace(self.proofs[candidate.placed], sram_bytes=candidate.sram_bytes)

    def _cheapest(self, plans: Sequence[Plan]) -> tuple[int, Plan]:
        return min(((self.search.judge(plan), plan) for plan in plans), key=lambda item: item[0])


def _promising(options: Sequence[Option]) -> list[Option]:
    """The options to look at: those of least expected cost, then those that are expected to be fastest; so a search for
    another cost also has what a search for cycles finds."""
    found = _best(options, lambda option: (option.expected_cost, option.bound_cost))
    fastest = _best(options, lambda option: (option.expected_cycles, option.bound_cycles))
    return list({id(option): option for option in (*found, *fastest)}.values())


def _best(options: Sequence[Option], rank_of: Callable[[Option], tuple[int, int]]) -> list[Option]:
    """The best of each draft before the second of any, as long as there are not too many."""
    ranks: dict[int, int] = {}
    ranked = []
    limit = min((rank_of(option)[0] for option in options), default=0) * WORST
    for option in sorted(options, key=rank_of):
        if rank_of(option)[0] > limit:
            break
        rank = ranks[id(option.draft)] = ranks.get(id(option.draft), -1) + 1
        ranked.append((rank, option))
    ranked.sort(key=lambda item: item[0])
    chosen: list[Option] = []
    n_tasks = 0
    for _, option in ranked[:MOST_OPTIONS]:
        n_tasks += len(option.draft.computes)
        if chosen and n_tasks > MOST_TASKS:
            break
        chosen.append(option)
    return chosen


def _does_not_fit(smallest: Candidate, capacity_bytes: int) -> DoesNotFit:
    found = live_at_peak(smallest.placed.problem)
    live = ", ".join(f"{name} {size}" for name, size in sorted(found, key=lambda item: (-item[1], item[0]))[:6])
    needed = smallest.peak_bytes
    return DoesNotFit(
        f"needs {needed} bytes of sram, available {capacity_bytes}, "
        f"excess {needed - capacity_bytes}; live at the peak: {live}",
        stage="schedule",
        hint=f"compile with --sram {needed}, or choose a target with more sram",
    )
