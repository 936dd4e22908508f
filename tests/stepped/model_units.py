"""The datapaths: the MAC array with its output stage, and the units whose amounts flow."""

from __future__ import annotations

from tests.stepped.jit import compiled
from tests.stepped.model_control import NO_CONDITION, unmet_queue
from tests.stepped.model_plan import DRAM, FLASH, INPUT, MAC, RESIDUAL, SCALES, SECOND, STREAMS, Plan
from tests.stepped.model_state import (
    BUDGET,
    BUSY,
    GRANTS,
    MADE,
    NOW,
    ON_CONDITION,
    ON_DRAM,
    ON_FETCH,
    ON_FLASH,
    ON_LATENCY,
    ON_PORT,
    ON_STAGE,
    OUT,
    STAGED,
    State,
)

BACKLOG_WORDS, BACKLOG_BYTES = 2, 16
"""What may wait for a write port, or for a memory, before a unit stops."""

IDLE = -1


@compiled
def mac_cycle(p: Plan, s: State) -> int:
    """One cycle of array and output stage; what the cycle was spent on."""
    is_busy = _compute(p, s)
    reason = BUSY if is_busy else _mac_stall(p, s)
    _stage(p, s)
    return reason


@compiled
def _compute(p: Plan, s: State) -> bool:
    """Advance the present step, when its chunk is loaded and a half of the accumulators is free."""
    while s.steps[MAC] < s.step_limit[MAC]:
        k = p.step_base[MAC] + s.steps[MAC]
        if s.jobs[MAC, INPUT] < p.step_input[k] or s.jobs[MAC, SECOND] < p.step_second[k]:
            return False
        if s.staged[OUT] < p.step_after_block[k] or not _may_begin(p, s, k):
            return False
        cycles, elements = p.step_cycles[k], p.step_elements[k]
        done = s.step_cycles[MAC] + 1
        if cycles:
            s.staged[MADE] += elements * done // cycles - elements * (done - 1) // cycles
        else:
            s.staged[MADE] += elements
        if done >= cycles:
            s.steps[MAC] += 1
            s.step_cycles[MAC] = 0
        else:
            s.step_cycles[MAC] = done
        if cycles:
            s.clock[GRANTS] += 1
            return True
    return False


@compiled
def _may_begin(p: Plan, s: State, k: int) -> bool:
    """The last part of an instruction begins after the last load of all."""
    i = p.step_instruction[k]
    if s.steps[MAC] != p.issue_step[i]:
        return True
    left = 0
    for stream in range(STREAMS):
        left += max(0, p.end_job[i, stream] - s.jobs[MAC, stream])
    return bool(left == 0)


@compiled
def _stage(p: Plan, s: State) -> None:
    """Take elements as they come from the array, block after block, and hand words to the write port."""
    denominator = p.stage[1]
    s.staged[BUDGET] += p.stage[0]
    while s.staged[OUT] < len(p.block_elements):
        block = s.staged[OUT]
        i = p.block_instruction[block]
        resource = p.write_resource[i]
        if _missing_parameter(p, s, block) >= 0 or _is_backed_up(p, s, MAC, i):
            break
        end, elements, writes = p.block_end_elements[block], p.block_elements[block], p.block_writes[block]
        before = elements - (end - s.staged[STAGED])
        n = min(s.staged[BUDGET] // denominator, s.staged[MADE] - s.staged[STAGED], end - s.staged[STAGED])
        n = min(n, _with_residual(p, s, block) - before)
        if n <= 0:
            break
        words = writes * (before + n) // elements - writes * before // elements
        s.pending[MAC, resource] += words
        s.issued[MAC, resource] += words
        s.staged[STAGED] += n
        s.staged[BUDGET] -= n * denominator
        if s.staged[STAGED] < end:
            break
        s.staged[OUT] += 1
    s.staged[BUDGET] = min(s.staged[BUDGET], denominator - 1)


@compiled
def _with_residual(p: Plan, s: State, block: int) -> int:
    """Elements of a block whose residual operand has come, if there is one."""
    elements = p.block_elements[block]
    if s.jobs[MAC, RESIDUAL] >= p.block_jobs[block, RESIDUAL]:
        return int(elements)
    if s.jobs[MAC, RESIDUAL] + 1 < p.block_jobs[block, RESIDUAL]:
        return 0
    job = p.job_base[MAC, RESIDUAL] + s.jobs[MAC, RESIDUAL]
    return int(elements * s.job_amount[MAC, RESIDUAL] // p.job_amount[job])


@compiled
def _missing_parameter(p: Plan, s: State, block: int) -> int:
    """A stream whose jobs the next output of a block still needs; -1 when all have come."""
    if _with_residual(p, s, block) <= p.block_elements[block] - (p.block_end_elements[block] - s.staged[STAGED]):
        return RESIDUAL
    for stream in range(SCALES, RESIDUAL):
        if s.jobs[MAC, stream] < p.block_jobs[block, stream]:
            return stream
    return -1


@compiled
def _is_backed_up(p: Plan, s: State, unit: int, i: int) -> bool:
    """Whether the writes on their way, and those that wait at the port, fill what instruction i may keep there."""
    resource = p.write_resource[i]
    backlog = BACKLOG_BYTES if resource == DRAM else BACKLOG_WORDS
    return bool(
        s.issued[unit, resource] - s.written[unit, resource] >= backlog + p.write_delay[i] * p.capacity[resource]
    )


@compiled
def _resource_class(resource: int) -> int:
    return ON_FLASH if resource == FLASH else ON_DRAM if resource == DRAM else ON_PORT


@compiled
def _load_class(p: Plan, s: State, unit: int, k: int) -> int:
    """Why step k cannot begin: the first of lead, flash, dram and port; IDLE when its loads are there."""
    i = p.step_instruction[k]
    reason = IDLE
    for stream in range(SECOND + 1):
        need = p.step_input[k] if stream == INPUT else p.step_second[k]
        if s.jobs[unit, stream] < need:
            found = ON_LATENCY if s.clock[NOW] < s.ready[i] else _resource_class(p.resource[i, stream])
            reason = found if reason == IDLE else min(reason, found)
    return reason


@compiled
def _mac_stall(p: Plan, s: State) -> int:
    """The oldest work that is not done says why: output of an earlier instruction, loads, output of this one."""
    out = s.staged[OUT]
    last = p.order[p.order_base[MAC] + s.started[MAC] - 1] if s.started[MAC] else -1
    is_draining = last >= 0 and out < p.end_block[last]
    if s.steps[MAC] < s.step_limit[MAC]:
        k = p.step_base[MAC] + s.steps[MAC]
        if is_draining and p.block_instruction[out] < p.step_instruction[k]:
            return _output_class(p, s, out)
        reason = _load_class(p, s, MAC, k)
        return _output_class(p, s, out) if reason == IDLE else reason
    if is_draining:
        return _output_class(p, s, out)
    return waiting_class(p, s, MAC)


@compiled
def _output_class(p: Plan, s: State, block: int) -> int:
    i = p.block_instruction[block]
    stream = _missing_parameter(p, s, block)
    if stream >= 0:
        return _resource_class(p.resource[i, stream])
    return _resource_class(p.write_resource[i]) if _is_backed_up(p, s, MAC, i) else ON_STAGE


@compiled
def waiting_class(p: Plan, s: State, unit: int) -> int:
    """All steps are done: what the next instruction waits for, or the end of the last one."""
    following = p.order_base[unit] + s.started[unit]
    if following >= p.order_base[unit + 1]:
        if s.retired[unit] == s.started[unit]:
            return IDLE
        for resource in range(DRAM + 1):
            if s.pending[unit, resource]:
                return _resource_class(resource)
        return ON_LATENCY
    if s.started[unit] == s.dispatched[unit]:
        return ON_FETCH
    queue = unmet_queue(p, s, p.order[following])
    return ON_LATENCY if queue == NO_CONDITION else ON_CONDITION + queue


@compiled
def stream_cycle(p: Plan, s: State, unit: int) -> int:
    """One cycle of a unit whose words flow; what it was spent on. Steps without cycles take no time."""
    is_busy = False
    while s.steps[unit] < s.step_limit[unit]:
        k = p.step_base[unit] + s.steps[unit]
        i = p.step_instruction[k]
        resource = p.write_resource[i]
        reason = ON_LATENCY if s.clock[NOW] < s.ready[i] else _load_class(p, s, unit, k)
        if reason == IDLE and p.step_writes[k] and _is_backed_up(p, s, unit, i):
            reason = _resource_class(resource)
        if reason != IDLE:
            return BUSY if is_busy else reason
        if s.step_cycles[unit] < p.step_cycles[k]:
            if is_busy:
                return BUSY
            is_busy = True
            s.step_cycles[unit] += 1
            s.clock[GRANTS] += 1
        if s.step_cycles[unit] < p.step_cycles[k]:
            return BUSY
        arrival = s.clock[NOW] + max(p.write_delay[i], 1)
        s.issued[unit, resource] += p.step_writes[k]
        s.delayed[unit, resource, arrival % s.delayed.shape[2]] += p.step_writes[k]
        s.steps[unit] += 1
        s.step_cycles[unit] = 0
    return BUSY if is_busy else waiting_class(p, s, unit)


@compiled
def read_one(p: Plan, s: State, unit: int, resource: int) -> bool:
    """Serve one word or byte of the stream that asks for what comes first. The MAC array's loads have one order for
    each memory: one that has to wait holds those behind it."""
    best, first = -1, 0
    for stream in range(STREAMS):
        job = s.jobs[unit, stream]
        if job >= s.job_limit[unit, stream]:
            continue
        k = p.job_base[unit, stream] + job
        if p.resource[p.job_instruction[k], stream] != resource:
            continue
        if (unit == MAC or _is_asking(p, s, unit, k)) and (best < 0 or p.job_order[k] < first):
            best, first = stream, p.job_order[k]
    if best < 0 or not _is_asking(p, s, unit, p.job_base[unit, best] + s.jobs[unit, best]):
        return False
    s.job_amount[unit, best] += 1
    if s.job_amount[unit, best] == p.job_amount[p.job_base[unit, best] + s.jobs[unit, best]]:
        s.jobs[unit, best] += 1
        s.job_amount[unit, best] = 0
    return True


@compiled
def _is_asking(p: Plan, s: State, unit: int, k: int) -> bool:
    """Whether job k belongs to an instruction past its lead, and has a buffer."""
    begun = s.steps[unit] + (s.step_cycles[unit] > 0)
    if s.clock[NOW] < s.ready[p.job_instruction[k]] or begun < p.job_after_step[k]:
        return False
    if s.staged[OUT] < p.job_after_block[k]:
        return False
    return bool(s.jobs[unit, INPUT] >= p.job_after_input[k] and s.jobs[unit, SECOND] >= p.job_after_second[k])
