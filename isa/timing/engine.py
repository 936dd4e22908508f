"""The event engine behind `isa.timing.scoreboard`: kernels on int64 arrays, compiled where numba is installed.

`rows` [n, ROW] is the program, `order` the instructions queue by queue and then as the fetcher reads them, `s`
the state of the machine and `times` [n, TIME] the result; constants name the columns, and times are in ticks.

An instruction of a queue is first in front (lead time, then the first load), then in back (body, then last
amounts); the next one may enter front once back runs its last amounts. What is left of each amount is kept in
ticks at the full rate of its resource. A user of a shared resource asks for the part of it that keeps
the amount beside the longest one of its step; users that ask for more than their share divide what others leave.
"""

from __future__ import annotations

from isa.timing.compiled import compiled
from isa.timing.geometry import Ints

QUEUES = 5
"""Four queues of the NPU and the Arm core's list of calls."""
MAC_QUEUE = 2
FETCH_QUEUE = 5
CONDITIONS = 6
RESOURCES = 7
COMPUTE, OUTPUT, PACE, READ, WRITE, FLASH, DRAM = range(RESOURCES)
"""Resources; the first three are private to a unit, the others are shared."""
PHASES = 3
LOAD, BODY, LAST = range(PHASES)
CLASSES = 12
BUSY, FETCH, LATENCY, SRAM_PORT, FLASH_WAIT, DRAM_WAIT, OUTPUT_STAGE, CONDITION = range(8)
"""What a queue spends a tick on; CONDITION + q: waiting for queue q."""

QUEUE, LEAD, DRAIN, STREAM_END, DESCRIPTOR, PACE_CLASS, AMOUNTS = range(7)
"""Columns of `rows`; STREAM_END in ticks of flash bandwidth, PACE_CLASS for PACE alone, AMOUNTS by phase, resource."""
WAIT_QUEUE = AMOUNTS + PHASES * RESOURCES
WAIT_COUNT = WAIT_QUEUE + CONDITIONS
STRAIN = WAIT_COUNT + CONDITIONS
FULL_STRAIN = STRAIN + RESOURCES
"""By resource: 1/1024 by which the pace slows down per part of the resource that others take, while they take little,
and while they take all."""
ROW = FULL_STRAIN + RESOURCES

START, ISSUE_END, RETIRE, CHARGED = range(4)
"""Columns of `times`; CHARGED by class."""
TIME = CHARGED + CLASSES

NOW, MODE, POSITION, TIMER, TARGET, CONSUMED, DEPTH, PREFETCH, DISPATCH, FLASH_LATENCY, FIRST = range(11)
"""State: the fetcher's, then the parameters, then where each queue's part of `order` begins; then by queue."""
FRONT, FRONT_PHASE, FRONT_TIMER, BACK, BACK_PHASE, PUSHED, STARTED, ENDED, RETIRED, LEFT = range(18, 63 + 5, QUEUES)
AGENTS = 2 * QUEUES + 2
DEMAND = LEFT + AGENTS * RESOURCES
RATE = DEMAND + AGENTS * RESOURCES
RESOURCE_BUSY = RATE + AGENTS * RESOURCES
STATE = RESOURCE_BUSY + RESOURCES
WHOLE = 1024
"""All of a resource, in units of demands and rates."""

_STREAM = LEFT + 2 * QUEUES * RESOURCES + FLASH
_DESCRIPTOR_LEFT = _STREAM + RESOURCES
_NONE = -1
_FOREVER = 1 << 62
_BOOT, _BYTES, _DISPATCHING, _DESCRIPTOR_LATENCY, _DESCRIPTOR_READ, _PUSH, DONE = range(7)


@compiled
def run(rows: Ints, order: Ints, s: Ints, times: Ints) -> None:
    """Run until nothing can happen any more: to the end, or into a deadlock."""
    while True:
        while _settle(rows, order, s, times):
            pass
        _share(rows, s)
        interval = _next_event(order, s, times)
        if interval == _FOREVER:
            return
        _charge(rows, order, s, times, interval)
        _advance(s, interval)


@compiled
def unmet(rows: Ints, s: Ints, i: int) -> int:
    """Index of the first condition of instruction `i` that does not hold, -1 when all hold.

    A condition holds while (counter - count) modulo 2^16 is below 2^15."""
    for j in range(CONDITIONS):
        q = rows[i, WAIT_QUEUE + j]
        if q < QUEUES and (s[RETIRED + q] - rows[i, WAIT_COUNT + j]) & 0xFFFF >= 0x8000:
            return j
    return _NONE


@compiled
def _settle(rows: Ints, order: Ints, s: Ints, times: Ints) -> bool:
    """Everything that happens at this instant; True when something changed, so that more may follow."""
    changed = s[MODE] != DONE and _fetch(rows, order, s, times)
    for q in range(QUEUES):
        if s[RETIRED + q] < s[ENDED + q]:
            changed |= _retire(order, s, times, q)
        if s[BACK + q] != _NONE:
            changed |= _finish(rows, order, s, times, q)
        if s[FRONT + q] != _NONE:
            changed |= _step_front(rows, s, q)
        elif s[STARTED + q] < s[PUSHED + q]:
            changed |= _start(rows, order, s, times, q)
    return bool(changed)


@compiled
def _retire(order: Ints, s: Ints, times: Ints, q: int) -> bool:
    if times[order[s[FIRST + q] + s[RETIRED + q]], RETIRE] > s[NOW]:
        return False
    s[RETIRED + q] += 1
    return True


@compiled
def _finish(rows: Ints, order: Ints, s: Ints, times: Ints, q: int) -> bool:
    """End the body, or the last amounts, of the instruction in back."""
    if _is_flowing(s, QUEUES + q):
        return False
    i = s[BACK + q]
    if s[BACK_PHASE + q] == BODY:
        times[i, ISSUE_END] = s[NOW]
        s[BACK_PHASE + q] = LAST
        _flow(rows, s, QUEUES + q, i, LAST)
        return True
    retire = s[NOW] + rows[i, DRAIN]
    if s[ENDED + q] > 0:
        retire = max(retire, times[order[s[FIRST + q] + s[ENDED + q] - 1], RETIRE])
    times[i, RETIRE] = retire
    s[ENDED + q] += 1
    s[BACK + q] = _NONE
    return True


@compiled
def _step_front(rows: Ints, s: Ints, q: int) -> bool:
    """From lead time to first load, and from there to back once that is free."""
    i = s[FRONT + q]
    if s[FRONT_PHASE + q] == LOAD:
        if s[BACK + q] != _NONE or _is_flowing(s, q):
            return False
        s[FRONT + q], s[BACK + q], s[BACK_PHASE + q] = _NONE, i, BODY
        _flow(rows, s, QUEUES + q, i, BODY)
        return True
    if s[FRONT_TIMER + q] > s[NOW]:
        return False
    s[FRONT_PHASE + q] = LOAD
    _flow(rows, s, q, i, LOAD)
    return True


@compiled
def _start(rows: Ints, order: Ints, s: Ints, times: Ints, q: int) -> bool:
    """Start the head of the queue when its predecessor has issued its last block and its conditions hold."""
    if s[BACK + q] != _NONE and s[BACK_PHASE + q] == BODY:
        return False
    i = order[s[FIRST + q] + s[STARTED + q]]
    if unmet(rows, s, i) != _NONE:
        return False
    times[i, START] = s[NOW]
    s[STARTED + q] += 1
    s[FRONT + q] = i
    s[FRONT_PHASE + q] = _NONE
    s[FRONT_TIMER + q] = s[NOW] + rows[i, LEAD]
    return True


@compiled
def _flow(rows: Ints, s: Ints, agent: int, i: int, phase: int) -> None:
    for r in range(RESOURCES):
        s[LEFT + agent * RESOURCES + r] = rows[i, AMOUNTS + phase * RESOURCES + r]


@compiled
def _is_flowing(s: Ints, agent: int) -> bool:
    left = 0
    for flow in range(LEFT + agent * RESOURCES, LEFT + (agent + 1) * RESOURCES):
        left += s[flow]
    return bool(left > 0)


@compiled
def _fetch(rows: Ints, order: Ints, s: Ints, times: Ints) -> bool:
    """The fetcher: bytes of an instruction, dispatch, its own conditions, descriptor (latency, then bytes), queue."""
    mode = s[MODE]
    i = order[s[FIRST + FETCH_QUEUE] + s[POSITION]]
    if mode == _PUSH:
        return _push(rows, order, s, times, i)
    if mode == _BYTES:
        if s[TARGET] - s[_STREAM] < rows[i, STREAM_END]:
            return False
        if rows[i, QUEUE] == FETCH_QUEUE:
            times[i, START] = s[NOW]
        s[MODE], s[TIMER] = _DISPATCHING, s[NOW] + s[DISPATCH]
    elif s[TIMER] > s[NOW] or s[_DESCRIPTOR_LEFT] > 0:
        return False
    elif mode == _BOOT:
        s[MODE] = _BYTES
    elif mode == _DISPATCHING and rows[i, QUEUE] == FETCH_QUEUE and unmet(rows, s, i) != _NONE:
        return False
    elif mode == _DESCRIPTOR_LATENCY:
        s[MODE] = _DESCRIPTOR_READ
        s[_DESCRIPTOR_LEFT] = rows[i, DESCRIPTOR]
    elif mode == _DISPATCHING and rows[i, DESCRIPTOR] > 0:
        s[MODE], s[TIMER] = _DESCRIPTOR_LATENCY, s[NOW] + s[FLASH_LATENCY]
    else:
        s[MODE] = _PUSH
    _aim(rows, order, s)
    return True


@compiled
def _push(rows: Ints, order: Ints, s: Ints, times: Ints, i: int) -> bool:
    """Hand an instruction to its queue, when that has room, and turn to the next one."""
    q = rows[i, QUEUE]
    if q == FETCH_QUEUE:
        times[i, ISSUE_END] = times[i, RETIRE] = s[NOW]
    elif s[PUSHED + q] - s[STARTED + q] >= s[DEPTH]:
        return False
    else:
        s[PUSHED + q] += 1
    s[CONSUMED] = rows[i, STREAM_END]
    s[POSITION] += 1
    s[MODE] = _BYTES if s[FIRST + FETCH_QUEUE] + s[POSITION] < len(order) else DONE
    _aim(rows, order, s)
    return True


@compiled
def _aim(rows: Ints, order: Ints, s: Ints) -> None:
    """Point the stream at the end of the instruction that is waited for, or as far ahead as it may run."""
    read = s[TARGET] - s[_STREAM]
    target = read
    if s[MODE] != DONE and s[MODE] != _DESCRIPTOR_READ:
        end = rows[order[s[FIRST + FETCH_QUEUE] + s[POSITION]], STREAM_END]
        if read < end:
            target = end
        else:
            target = max(read, min(rows[order[len(order) - 1], STREAM_END], s[CONSUMED] + s[PREFETCH]))
    s[TARGET] = target
    s[_STREAM] = target - read


@compiled
def _share(rows: Ints, s: Ints) -> None:
    """The rate of every flow until the next event."""
    for agent in range(AGENTS):
        first, longest = LEFT + agent * RESOURCES, 0
        for flow in range(first, first + RESOURCES):
            longest = max(longest, s[flow])
        for r in range(RESOURCES):
            left = s[first + r]
            demand = -(-left * WHOLE // longest) if left > 0 else 0
            s[DEMAND + agent * RESOURCES + r] = demand
            s[RATE + agent * RESOURCES + r] = WHOLE if left > 0 else 0
    for r in range(READ, RESOURCES):
        level = max(_level(s, r, _NONE), 1)
        for flow in range(r, AGENTS * RESOURCES, RESOURCES):
            s[RATE + flow] = min(s[DEMAND + flow], level)
    for q in range(QUEUES):
        if q != MAC_QUEUE:
            _couple(s, QUEUES + q)
        if s[BACK + q] != _NONE and s[LEFT + (QUEUES + q) * RESOURCES + PACE] > 0:
            s[RATE + (QUEUES + q) * RESOURCES + PACE] = _pace_rate(rows, s, q)


@compiled
def _couple(s: Ints, agent: int) -> None:
    """Words stream through a vector or DMA unit: nothing of it runs ahead of what has the least of its demand."""
    first, slowest, demand = agent * RESOURCES, WHOLE, WHOLE
    for flow in range(first, first + RESOURCES):
        if s[DEMAND + flow] > 0 and s[RATE + flow] * demand < slowest * s[DEMAND + flow]:
            slowest, demand = s[RATE + flow], s[DEMAND + flow]
    for flow in range(first, first + RESOURCES):
        if s[DEMAND + flow] > 0:
            s[RATE + flow] = -(-s[DEMAND + flow] * slowest // demand)


@compiled
def _level(s: Ints, r: int, eager: int) -> int:
    """The most that a user of r gets; agent `eager` asks for all of it."""
    level = 0
    while True:
        taken = more = 0
        for agent in range(AGENTS):
            demand = WHOLE if agent == eager else s[DEMAND + agent * RESOURCES + r]
            if demand > level:
                more += 1
            else:
                taken += demand
        following = WHOLE if more == 0 else (WHOLE - taken) // more
        if following <= level:
            return int(level)
        level = following


@compiled
def _pace_rate(rows: Ints, s: Ints, q: int) -> int:
    """Others slow the pace down where it is that of a resource that they use, too."""
    rate, i, agent = WHOLE, s[BACK + q], QUEUES + q
    for r in range(READ, RESOURCES):
        if s[LEFT + agent * RESOURCES + r] > 0 and rows[i, FULL_STRAIN + r] > 0:
            taken = WHOLE - _level(s, r, agent)
            strain = rows[i, STRAIN + r] + (rows[i, FULL_STRAIN + r] - rows[i, STRAIN + r]) * taken // WHOLE
            rate -= strain * taken // WHOLE
    return int(max(rate, 1))


@compiled
def _next_event(order: Ints, s: Ints, times: Ints) -> int:
    """Ticks to the next event."""
    interval = _FOREVER
    for flow in range(AGENTS * RESOURCES):
        left = s[LEFT + flow]
        if left > 0:
            interval = min(interval, -(-left * WHOLE // s[RATE + flow]))
    if s[MODE] in (_BOOT, _DISPATCHING, _DESCRIPTOR_LATENCY) and s[TIMER] > s[NOW]:
        interval = min(interval, s[TIMER] - s[NOW])
    for q in range(QUEUES):
        if s[FRONT + q] != _NONE and s[FRONT_PHASE + q] == _NONE:
            interval = min(interval, s[FRONT_TIMER + q] - s[NOW])
        if s[RETIRED + q] < s[ENDED + q]:
            interval = min(interval, times[order[s[FIRST + q] + s[RETIRED + q]], RETIRE] - s[NOW])
    return int(interval)


@compiled
def _advance(s: Ints, interval: int) -> None:
    for flow in range(AGENTS * RESOURCES):
        left = s[LEFT + flow]
        if left > 0:
            done = min(left, interval * s[RATE + flow] // WHOLE)
            s[LEFT + flow] = left - done
            s[RESOURCE_BUSY + flow % RESOURCES] += done
    s[NOW] += interval


@compiled
def _charge(rows: Ints, order: Ints, s: Ints, times: Ints, interval: int) -> None:
    """Book the interval of every queue that has work left to an instruction and a class."""
    for q in range(QUEUES):
        first = s[FIRST + q]
        if s[BACK + q] != _NONE:
            i, kind = s[BACK + q], _flow_class(rows, s, QUEUES + q, s[BACK + q])
            if q != MAC_QUEUE and kind == BUSY:
                busy = interval * s[RATE + (QUEUES + q) * RESOURCES + COMPUTE] // WHOLE
                times[i, CHARGED + BUSY] += busy
                times[i, CHARGED + _shared_class(s, (QUEUES + q) * RESOURCES)] += interval - busy
                continue
        elif s[FRONT + q] != _NONE:
            i = s[FRONT + q]
            kind = _flow_class(rows, s, q, i) if s[FRONT_PHASE + q] == LOAD else LATENCY
        elif s[STARTED + q] < s[FIRST + q + 1] - first:
            i = order[first + s[STARTED + q]]
            kind = FETCH
            if s[STARTED + q] < s[PUSHED + q]:
                kind = CONDITION + rows[i, WAIT_QUEUE + unmet(rows, s, i)]
        elif s[RETIRED + q] < s[ENDED + q]:
            i, kind = order[first + s[ENDED + q] - 1], LATENCY
        else:
            continue
        times[i, CHARGED + kind] += interval


@compiled
def _flow_class(rows: Ints, s: Ints, agent: int, i: int) -> int:
    """Busy while the unit's own datapath works; after that, what the rest waits for: the longest amount left."""
    flow = LEFT + agent * RESOURCES
    if s[flow + COMPUTE] > 0:
        return BUSY
    if s[flow + PACE] > s[flow + OUTPUT]:
        kind, longest = int(rows[i, PACE_CLASS]), s[flow + PACE]
    else:
        kind, longest = int(OUTPUT_STAGE), s[flow + OUTPUT]
    for r in range(READ, RESOURCES):
        if s[flow + r] > 0 and s[flow + r] >= longest:
            return _shared_class(s, agent * RESOURCES)
    return kind


@compiled
def _shared_class(s: Ints, flow: int) -> int:
    """The shared resource with the longest amount left; of equal ones the first of flash, dram and port."""
    kind, longest = int(SRAM_PORT), 0
    for r in range(RESOURCES - 1, READ - 1, -1):
        left = s[LEFT + flow + r]
        if left > 0 and left >= longest:
            kind, longest = FLASH_WAIT if r == FLASH else DRAM_WAIT if r == DRAM else SRAM_PORT, left
    return int(kind)
