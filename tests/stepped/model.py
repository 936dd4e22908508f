"""An independent model of the machine, cycle by cycle, written from the manual; it shares no code with `isa.timing`.

`step_program` knows a program and a target. In every cycle each shared resource (read port, write port, flash, dram)
serves one word or byte after the other, round-robin over the units and the fetcher; datapaths advance by one cycle.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.container import read_container
from isa.errors import IsaError
from isa.target import Target
from tests.stepped.jit import compiled
from tests.stepped.model_builder import build_plan
from tests.stepped.model_control import DESCRIPTOR_BYTES, control
from tests.stepped.model_plan import FLASH, MAC, RESOURCES, UNITS, Ints, Plan
from tests.stepped.model_state import AT, DISPATCHED_BYTES, FETCHED, GRANTS, LEFT, NOW, PHASE, State, initial_state
from tests.stepped.model_units import IDLE, mac_cycle, read_one, stream_cycle

QUIET_CYCLES = 2000
"""Longer than any timer: without a single word or step in between, nothing will ever happen."""


@dataclass(frozen=True)
class Stepped:
    """A run: cycles in all, start and retirement of every instruction, what the cycles of each queue were spent on."""

    cycles: int
    start: Ints
    """-1 for instructions of the fetcher, and for those that a deadlock keeps from starting."""
    retire: Ints
    spent: Ints
    """[queues, classes]; see `model_state`."""
    is_deadlock: bool


def step_program(container: bytes, target: Target) -> Stepped:
    """Run a program from its first to its last cycle."""
    parts = read_container(container)
    if parts.arm_calls:
        raise IsaError("program has Arm calls, which the stepped model does not know")
    return step_plan(build_plan(parts.instructions, container, target))


def step_plan(plan: Plan) -> Stepped:
    """Run a plan."""
    state = initial_state(plan)
    is_complete = _run(plan, state)
    return Stepped(int(state.retire.max(initial=0)), state.start, state.retire, state.spent, not is_complete)


@compiled
def _run(p: Plan, s: State) -> bool:
    """Whether the program came to its end; otherwise nothing moves any more."""
    grants = quiet = 0
    while quiet < QUIET_CYCLES:
        control(p, s)
        if _is_complete(p, s):
            return True
        _arrive(s)
        reason = mac_cycle(p, s)
        if reason != IDLE:
            s.spent[MAC, reason] += 1
        for resource in range(RESOURCES):
            _arbitrate(p, s, resource)
        for unit in range(UNITS):
            if unit != MAC:
                reason = stream_cycle(p, s, unit)
                if reason != IDLE:
                    s.spent[unit, reason] += 1
        quiet = quiet + 1 if s.clock[GRANTS] == grants else 0
        grants = s.clock[GRANTS]
        s.clock[NOW] += 1
    return False


@compiled
def _is_complete(p: Plan, s: State) -> bool:
    left = len(p.queue) - s.fetcher[AT]
    for unit in range(UNITS):
        left += p.order_base[unit + 1] - p.order_base[unit] - s.retired[unit]
    return bool(left == 0)


@compiled
def _arrive(s: State) -> None:
    """Words whose latency is over ask for their port."""
    slot = s.clock[NOW] % s.delayed.shape[2]
    for unit in range(UNITS):
        for resource in range(RESOURCES):
            s.pending[unit, resource] += s.delayed[unit, resource, slot]
            s.delayed[unit, resource, slot] = 0


@compiled
def _arbitrate(p: Plan, s: State, resource: int) -> None:
    """Serve users in turn, one word or byte each, until the cycle's capacity is used or nobody asks."""
    left = p.capacity[resource]
    misses = 0
    while left > 0 and misses <= UNITS:
        user = s.turn[resource]
        s.turn[resource] = (user + 1) % (UNITS + 1)
        if _serve(p, s, user, resource):
            left -= 1
            misses = 0
            s.clock[GRANTS] += 1
        else:
            misses += 1


@compiled
def _serve(p: Plan, s: State, user: int, resource: int) -> bool:
    if user == UNITS:
        return bool(resource == FLASH and _fetch_byte(p, s))
    if s.pending[user, resource]:
        s.pending[user, resource] -= 1
        s.written[user, resource] += 1
        return True
    return read_one(p, s, user, resource)


@compiled
def _fetch_byte(p: Plan, s: State) -> bool:
    """A byte of the stream, or of a descriptor while one is loaded."""
    f = s.fetcher
    if f[PHASE] == DESCRIPTOR_BYTES:
        if f[LEFT] == 0:
            return False
        f[LEFT] -= 1
        return True
    reach = min(p.offset_end[-1], f[DISPATCHED_BYTES] + p.fetch[3])
    if s.clock[NOW] < p.fetch[0] or f[FETCHED] >= reach:
        return False
    f[FETCHED] += 1
    return True
