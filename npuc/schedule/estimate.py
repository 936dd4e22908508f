"""How long a draft takes with its loads in given places, before it has addresses.

Flash delivers load after load. A load that memory keeps from coming earlier waits for the task in front of it to end:
the buffers that are live at that task leave no room for it, wherever they lie. A task waits for its unit, for its
parameters and, in an estimate, for what it reads. Without the last this is a bound: every placement takes longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from isa.target import Target
from npuc.schedule.draft import Draft
from npuc.schedule.parameters import LOADS_AHEAD, ParameterUse
from npuc.schedule.tile_model import TILE_STREAM_BYTES

DESCRIPTOR_BYTES = 72
"""Of a typical layer's descriptor, which comes through the same flash."""


def lower_bound(draft: Draft, uses: Sequence[ParameterUse], positions: Sequence[int], target: Target) -> int:
    """Cycles that the units and the flash need at least."""
    cycles = [cost.roof_cycles for cost in draft.costs]
    return max(_run(draft, uses, positions, cycles, target, is_bound=True), draft.roof_cycles)


def estimate(draft: Draft, uses: Sequence[ParameterUse], positions: Sequence[int], target: Target) -> int:
    """Cycles to expect: also for data that a task waits for, and for the port that loads take from the units."""
    cycles = [cost.cycles for cost in draft.costs]
    expected = _run(draft, uses, positions, cycles, target, is_bound=False)
    if not target.board.sram_shared_port:
        return expected
    port = sum(cost.port_words for cost in draft.costs)
    loaded = sum(use.buffer.n_bytes for use in uses) // target.board.sram_read_bytes_per_cycle
    return expected + loaded * min(port, expected) // max(expected, 1)


def _run(
    draft: Draft,
    uses: Sequence[ParameterUse],
    positions: Sequence[int],
    cycles: Sequence[int],
    target: Target,
    *,
    is_bound: bool,
) -> int:
    rate = target.board.flash_bytes_per_cycle
    loaded, flash, at = [0] * (len(draft.computes) + 1), 0, 0
    depth, dispatched = target.costs.queue_depth, 0
    ends: list[int] = []
    started: dict[int, list[int]] = {}
    unit: dict[int, int] = {}
    written: dict[str, int] = {}
    described = ""
    for i, task in enumerate(draft.computes):
        while at < len(uses) and positions[at] <= i:
            if _is_held_back(uses, positions, at) and i:
                flash = max(flash, ends[i - 1])
            if not is_bound:
                flash = max(flash, dispatched)
            flash += uses[at].buffer.n_bytes // rate
            loaded[uses[at].first] = flash
            at += 1
        start = max(unit.get(task.queue, 0), loaded[i])
        if not is_bound:
            start = max([start, *(written.get(name, 0) for name in draft.reads[task.kernel])])
            flash += (TILE_STREAM_BYTES + (DESCRIPTOR_BYTES if task.kernel != described else 0)) // rate
            described = task.kernel
            read = draft.costs[i].flash_bytes // rate
            flash = max(flash, start) + read if read else flash
            start = max(start, min(flash, start + 2 * read) - cycles[i])  # loads take half of the flash meanwhile
        ends.append(start + cycles[i])
        queue = started.setdefault(task.queue, [])
        queue.append(start)
        dispatched = max(dispatched, queue[-depth] if len(queue) >= depth else 0)
        unit[task.queue] = ends[i]
        written[draft.writes[task.kernel]] = ends[i]
    return max(ends, default=0)


def _is_held_back(uses: Sequence[ParameterUse], positions: Sequence[int], at: int) -> bool:
    """Whether memory, not the order of loads or the queue, decided where a load stands."""
    lowest = positions[at - 1] if at else 0
    if at >= LOADS_AHEAD:
        lowest = max(lowest, uses[at - LOADS_AHEAD].first)
    return positions[at] > lowest
