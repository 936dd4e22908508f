"""Queues, progress counters and the fetcher: what happens between two cycles."""

from __future__ import annotations

from tests.stepped.jit import compiled
from tests.stepped.model_plan import FETCH, MAC, RESOURCES, STREAMS, UNITS, Plan
from tests.stepped.model_state import (
    AT,
    DISPATCHED_BYTES,
    FETCHED,
    LEFT,
    NOW,
    OUT,
    PHASE,
    TIMER,
    State,
)

BYTES, DISPATCH, HAND_OVER, DESCRIPTOR_LATENCY, DESCRIPTOR_BYTES = range(5)
"""Phases of the fetcher."""

CONDITIONS = 6
NO_CONDITION = 7
HALF, MASK = 1 << 15, (1 << 16) - 1


@compiled
def control(p: Plan, s: State) -> None:
    """Retire, start and dispatch until nothing more happens at this time."""
    moved = True
    while moved:
        moved = False
        for unit in range(UNITS):
            moved |= _retire(p, s, unit)
        for unit in range(UNITS):
            moved |= _start(p, s, unit)
        moved |= _fetch(p, s)


@compiled
def unmet_queue(p: Plan, s: State, i: int) -> int:
    """The queue of the first condition of instruction i that does not hold; NO_CONDITION when all do."""
    for k in range(CONDITIONS):
        queue = p.condition_queue[i, k]
        if queue != NO_CONDITION:
            count = s.retired[queue] if queue < UNITS else 0
            if (count - p.condition_count[i, k]) & MASK >= HALF:
                return int(queue)
    return NO_CONDITION


@compiled
def _retire(p: Plan, s: State, unit: int) -> bool:
    moved = False
    now = s.clock[NOW]
    while s.complete[unit] < s.started[unit]:
        i = p.order[p.order_base[unit] + s.complete[unit]]
        if s.steps[unit] < p.end_step[i] or (unit == MAC and s.staged[OUT] < p.end_block[i]):
            break
        is_written = True
        for r in range(RESOURCES):
            is_written &= s.written[unit, r] >= p.end_write[i, r]
        if not is_written:
            break
        s.done[i] = now + p.drain[i]
        s.complete[unit] += 1
    while s.retired[unit] < s.complete[unit]:
        i = p.order[p.order_base[unit] + s.retired[unit]]
        if s.done[i] > now:
            break
        s.retire[i] = now
        s.retired[unit] += 1
        moved = True
    return moved


@compiled
def _start(p: Plan, s: State, unit: int) -> bool:
    """Start the head of the queue: its predecessor has issued its last block, its conditions hold."""
    moved = False
    while s.started[unit] < s.dispatched[unit]:
        k = p.order_base[unit] + s.started[unit]
        i = p.order[k]
        if s.started[unit] and not _has_issued(p, s, unit, p.order[k - 1]):
            break
        if unmet_queue(p, s, i) != NO_CONDITION:
            break
        s.started[unit] += 1
        s.start[i] = s.clock[NOW]
        s.ready[i] = s.clock[NOW] + p.lead[i]
        s.step_limit[unit] = p.end_step[i]
        for stream in range(STREAMS):
            s.job_limit[unit, stream] = p.end_job[i, stream]
        moved = True
    return moved


@compiled
def _has_issued(p: Plan, s: State, unit: int, i: int) -> bool:
    """All loads have come and the last step has begun."""
    left = max(0, p.issue_step[i] - s.steps[unit])
    for stream in range(STREAMS):
        left += max(0, p.end_job[i, stream] - s.jobs[unit, stream])
    return bool(left == 0)


@compiled
def _fetch(p: Plan, s: State) -> bool:
    """One transition of the fetcher, if one is due."""
    f = s.fetcher
    i = f[AT]
    now = s.clock[NOW]
    if i >= len(p.queue):
        return False
    if f[PHASE] == BYTES and f[FETCHED] >= p.offset_end[i]:
        f[PHASE], f[TIMER] = DISPATCH, now + p.fetch[1]
        return True
    if f[PHASE] == DISPATCH and now >= f[TIMER]:
        f[PHASE] = HAND_OVER
        return True
    if f[PHASE] == HAND_OVER:
        return _hand_over(p, s, i)
    if f[PHASE] == DESCRIPTOR_LATENCY and now >= f[TIMER]:
        f[PHASE] = DESCRIPTOR_BYTES
        return True
    if f[PHASE] == DESCRIPTOR_BYTES and f[LEFT] == 0:
        _advance(p, s, i)
        return True
    return False


@compiled
def _hand_over(p: Plan, s: State, i: int) -> bool:
    queue = p.queue[i]
    if queue == FETCH:
        if unmet_queue(p, s, i) != NO_CONDITION:
            return False
        if p.descriptor_bytes[i]:
            s.fetcher[LEFT] = p.descriptor_bytes[i]
            s.fetcher[PHASE], s.fetcher[TIMER] = DESCRIPTOR_LATENCY, s.clock[NOW] + p.fetch[0]
            return True
    elif s.dispatched[queue] - s.started[queue] >= p.fetch[2]:
        return False
    else:
        s.dispatched[queue] += 1
    _advance(p, s, i)
    return True


@compiled
def _advance(p: Plan, s: State, i: int) -> None:
    s.fetcher[DISPATCHED_BYTES] = p.offset_end[i]
    s.fetcher[AT] += 1
    s.fetcher[PHASE] = BYTES
