"""The event engine behind `isa.timing.scoreboard`: kernels on flat int64 arrays, compiled where numba is installed.

An instruction of a queue is first in `front` (lead time, then the first load), then in `back` (body, then last
amounts); the next one may enter `front` once `back` runs its last amounts. What is left of each amount is kept in
ticks at the full rate of its resource; with u users of a shared resource a tick of work takes u ticks.
"""

from __future__ import annotations

from isa.timing.compiled import compiled
from isa.timing.machine import Machine, Plan

QUEUES = 5
"""Four queues of the NPU and the Arm core's list of calls."""
RESOURCES = 6
COMPUTE, OUTPUT, READ, WRITE, FLASH, DRAM = range(RESOURCES)
"""Resources; the first two are private to a unit, the others are shared."""
PHASES = 3
LOAD, BODY, LAST = range(PHASES)
CONDITIONS = 6
CLASSES = 12
BUSY, FETCH, LATENCY, SRAM_PORT, FLASH_WAIT, DRAM_WAIT, OUTPUT_STAGE, CONDITION = range(8)
"""What a unit does with a tick; CONDITION + q waits for queue q."""

_STREAM, _DESCRIPTOR = 2 * QUEUES, 2 * QUEUES + 1
AGENTS = 2 * QUEUES + 2
_NONE = -1
_FOREVER = 1 << 62
_BOOT, _BYTES, _DISPATCH, _LATENCY, _READ, _PUSH, _DONE = range(7)
_FETCH_QUEUE = 5
# Rows of Machine.scalars.
NOW, MODE, POSITION, TIMER, TARGET, CONSUMED = range(6)


@compiled
def run(plan: Plan, machine: Machine) -> bool:
    """Run to the end; False when nothing can happen any more although instructions are left (deadlock)."""
    while True:
        while _settle(plan, machine):
            pass
        interval = _next_event(plan, machine)
        if interval == _FOREVER:
            return _is_complete(plan, machine)
        _charge(plan, machine, interval)
        _advance(machine, interval)


@compiled
def unmet(plan: Plan, machine: Machine, i: int) -> int:
    """Index of the first condition of instruction `i` that does not hold, -1 when all hold.

    A condition holds while (counter - count) modulo 2^16 is below 2^15."""
    for j in range(i * CONDITIONS, (i + 1) * CONDITIONS):
        q = plan.wait_queue[j]
        if q < QUEUES and (machine.retired[q] - plan.wait_count[j]) & 0xFFFF >= 0x8000:
            return j - i * CONDITIONS
    return _NONE


@compiled
def _is_complete(plan: Plan, machine: Machine) -> bool:
    for q in range(QUEUES):
        if machine.retired[q] < plan.first[q + 1] - plan.first[q]:
            return False
    return bool(machine.scalars[MODE] == _DONE)


@compiled
def _settle(plan: Plan, machine: Machine) -> bool:
    """Everything that happens at this instant; True when something changed, so that more may follow."""
    changed = _fetch(plan, machine)
    for q in range(QUEUES):
        changed |= _retire(plan, machine, q)
        changed |= _finish(plan, machine, q)
        changed |= _step_front(plan, machine, q)
        changed |= _start(plan, machine, q)
    return changed


@compiled
def _retire(plan: Plan, machine: Machine, q: int) -> bool:
    position = machine.retired[q]
    if position == machine.ended[q] or machine.retire[plan.order[plan.first[q] + position]] > machine.scalars[NOW]:
        return False
    machine.retired[q] += 1
    return True


@compiled
def _finish(plan: Plan, machine: Machine, q: int) -> bool:
    """End the body, or the last amounts, of the instruction in `back`."""
    i = machine.back[q]
    if i == _NONE or _is_flowing(machine, QUEUES + q):
        return False
    now = machine.scalars[NOW]
    if machine.back_phase[q] == BODY:
        machine.issue_end[i] = now
        machine.back_phase[q] = LAST
        _flow(plan, machine, QUEUES + q, i, LAST)
        return True
    retire = now + plan.drain[i]
    if machine.ended[q] > 0:
        retire = max(retire, machine.retire[plan.order[plan.first[q] + machine.ended[q] - 1]])
    machine.retire[i] = retire
    machine.ended[q] += 1
    machine.back[q] = _NONE
    return True


@compiled
def _step_front(plan: Plan, machine: Machine, q: int) -> bool:
    """From lead time to first load, and from there to `back` once that is free."""
    i = machine.front[q]
    if i == _NONE:
        return False
    if machine.front_phase[q] == LOAD:
        if machine.back[q] != _NONE or _is_flowing(machine, q):
            return False
        machine.front[q] = _NONE
        machine.back[q] = i
        machine.back_phase[q] = BODY
        _flow(plan, machine, QUEUES + q, i, BODY)
        return True
    if machine.front_timer[q] > machine.scalars[NOW]:
        return False
    machine.front_phase[q] = LOAD
    _flow(plan, machine, q, i, LOAD)
    return True


@compiled
def _start(plan: Plan, machine: Machine, q: int) -> bool:
    """Start the head of the queue when its predecessor has issued its last block and its conditions hold."""
    position = machine.started[q]
    if machine.front[q] != _NONE or position == machine.pushed[q]:
        return False
    if machine.back[q] != _NONE and machine.back_phase[q] == BODY:
        return False
    i = plan.order[plan.first[q] + position]
    if unmet(plan, machine, i) != _NONE:
        return False
    machine.started[q] += 1
    machine.start[i] = machine.scalars[NOW]
    machine.front[q] = i
    machine.front_phase[q] = _NONE
    machine.front_timer[q] = machine.scalars[NOW] + plan.lead[i]
    return True


@compiled
def _flow(plan: Plan, machine: Machine, agent: int, i: int, phase: int) -> None:
    for r in range(RESOURCES):
        machine.left[agent * RESOURCES + r] = plan.amounts[(i * PHASES + phase) * RESOURCES + r]


@compiled
def _is_flowing(machine: Machine, agent: int) -> bool:
    for r in range(RESOURCES):
        if machine.left[agent * RESOURCES + r] > 0:
            return True
    return False


@compiled
def _fetch(plan: Plan, machine: Machine) -> bool:
    """The fetcher: bytes of an instruction, dispatch, descriptor (latency, then bytes), queue."""
    s = machine.scalars
    mode = s[MODE]
    if mode == _DONE:
        return False
    if mode == _BOOT:
        if s[TIMER] > s[NOW]:
            return False
        s[MODE] = _BYTES if len(plan.fetched) > 0 else _DONE
        _aim(plan, machine)
        return True
    i = plan.fetched[s[POSITION]]
    if mode == _BYTES:
        return _begin_dispatch(plan, machine, i)
    if mode == _READ:
        if machine.left[_DESCRIPTOR * RESOURCES + FLASH] > 0:
            return False
        s[MODE] = _PUSH
        _aim(plan, machine)
        return True
    if mode == _PUSH:
        return _push(plan, machine, i)
    if s[TIMER] > s[NOW]:
        return False
    if mode == _DISPATCH and plan.descriptor[i] > 0:
        s[MODE] = _LATENCY
        s[TIMER] = s[NOW] + plan.limits[3]
    elif mode == _DISPATCH:
        s[MODE] = _PUSH
    else:
        s[MODE] = _READ
        _aim(plan, machine)
        machine.left[_DESCRIPTOR * RESOURCES + FLASH] = plan.descriptor[i]
    return True


@compiled
def _begin_dispatch(plan: Plan, machine: Machine, i: int) -> bool:
    s = machine.scalars
    if s[TARGET] - machine.left[_STREAM * RESOURCES + FLASH] < plan.stream_end[i]:
        return False
    if plan.queue[i] == _FETCH_QUEUE:
        machine.start[i] = s[NOW]
    s[MODE] = _DISPATCH
    s[TIMER] = s[NOW] + plan.limits[2]
    _aim(plan, machine)
    return True


@compiled
def _push(plan: Plan, machine: Machine, i: int) -> bool:
    """Hand an instruction to its queue, when that has room, and turn to the next one."""
    s = machine.scalars
    q = plan.queue[i]
    if q == _FETCH_QUEUE:
        machine.issue_end[i] = s[NOW]
        machine.retire[i] = s[NOW]
    elif machine.pushed[q] - machine.started[q] >= plan.limits[0]:
        return False
    else:
        machine.pushed[q] += 1
    s[CONSUMED] = plan.stream_end[i]
    s[POSITION] += 1
    s[MODE] = _BYTES if s[POSITION] < len(plan.fetched) else _DONE
    _aim(plan, machine)
    return True


@compiled
def _aim(plan: Plan, machine: Machine) -> None:
    """Point the stream at the end of the instruction that is waited for, or as far ahead as it may run."""
    s = machine.scalars
    flow = _STREAM * RESOURCES + FLASH
    read = s[TARGET] - machine.left[flow]
    if s[MODE] == _DONE or s[MODE] == _READ:
        s[TARGET] = read
    elif s[MODE] == _BYTES and read < plan.stream_end[plan.fetched[s[POSITION]]]:
        s[TARGET] = plan.stream_end[plan.fetched[s[POSITION]]]
    else:
        end = plan.stream_end[plan.fetched[len(plan.fetched) - 1]]
        s[TARGET] = max(read, min(end, s[CONSUMED] + plan.limits[1]))
    machine.left[flow] = s[TARGET] - read


@compiled
def _next_event(plan: Plan, machine: Machine) -> int:
    """Ticks to the next event; also counts the users of each resource."""
    now = machine.scalars[NOW]
    interval = _FOREVER
    for r in range(RESOURCES):
        users, least = 0, _FOREVER
        for agent in range(AGENTS):
            left = machine.left[agent * RESOURCES + r]
            if left > 0:
                users += 1
                least = min(least, left)
        machine.users[r] = users
        if users > 0:
            interval = min(interval, least if r < READ else least * users)
    mode = machine.scalars[MODE]
    if mode == _BOOT or mode == _DISPATCH or mode == _LATENCY:
        interval = min(interval, machine.scalars[TIMER] - now)
    for q in range(QUEUES):
        if machine.front[q] != _NONE and machine.front_phase[q] == _NONE:
            interval = min(interval, machine.front_timer[q] - now)
        if machine.retired[q] < machine.ended[q]:
            interval = min(interval, machine.retire[plan.order[plan.first[q] + machine.retired[q]]] - now)
    return interval


@compiled
def _advance(machine: Machine, interval: int) -> None:
    for r in range(RESOURCES):
        users = machine.users[r]
        if users == 0:
            continue
        machine.busy[r] += interval
        done = interval if r < READ else interval // users
        for agent in range(AGENTS):
            left = machine.left[agent * RESOURCES + r]
            if left > 0:
                machine.left[agent * RESOURCES + r] = max(left - done, 0)
    machine.scalars[NOW] += interval


@compiled
def _charge(plan: Plan, machine: Machine, interval: int) -> None:
    """Book the interval of every queue that has work left to an instruction and a class."""
    for q in range(QUEUES):
        first = plan.first[q]
        if machine.back[q] != _NONE:
            i = machine.back[q]
            kind = _flow_class(machine, QUEUES + q)
        elif machine.front[q] != _NONE:
            i = machine.front[q]
            kind = _flow_class(machine, q) if machine.front_phase[q] == LOAD else LATENCY
        elif machine.started[q] < plan.first[q + 1] - first:
            i = plan.order[first + machine.started[q]]
            kind = FETCH
            if machine.started[q] < machine.pushed[q]:
                kind = CONDITION + plan.wait_queue[i * CONDITIONS + unmet(plan, machine, i)]
        elif machine.retired[q] < machine.ended[q]:
            i = plan.order[first + machine.ended[q] - 1]
            kind = LATENCY
        else:
            continue
        machine.charged[i * CLASSES + kind] += interval


@compiled
def _flow_class(machine: Machine, agent: int) -> int:
    """Busy while the unit's own datapath works; after that, what the rest waits for."""
    flow = agent * RESOURCES
    if machine.left[flow + COMPUTE] > 0:
        return BUSY
    if machine.left[flow + FLASH] > 0:
        return FLASH_WAIT
    if machine.left[flow + DRAM] > 0:
        return DRAM_WAIT
    if machine.left[flow + READ] > 0 or machine.left[flow + WRITE] > 0:
        return SRAM_PORT
    return OUTPUT_STAGE
