"""From a draft to a placed plan: loads in program order, addresses for every buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isa.target import Target
from npuc.allocation import Buffer as Range
from npuc.allocation import CapacityExceeded, Placement, Problem, allocate
from npuc.schedule.draft import Draft
from npuc.schedule.estimate import follow
from npuc.schedule.memory import Live, aligned
from npuc.schedule.parameters import ParameterUse, interleave, place_loads
from npuc.task.task import Buffer, Load, Plan, Task


@dataclass(frozen=True)
class Placed:
    """A plan with addresses, and the allocation problem that they solve; `crowded` are its tasks with the block shapes
    that leave a part of the port to loads."""

    plan: Plan
    crowded: tuple[Task, ...]
    problem: Problem
    placement: Placement


def place(
    draft: Draft, uses: Sequence[ParameterUse], limits: Sequence[int], capacity_bytes: int, target: Target
) -> Placed:
    """Addresses for a draft; loads move later until everything fits, CapacityExceeded when that is not enough."""
    live, room = draft.live, capacity_bytes
    while True:
        earliest = place_loads(uses, live, room, limits)
        course = follow(draft, uses, earliest, target)
        tasks = tuple(interleave(draft.computes, uses, course.positions, limits))
        problem = _problem(tasks, uses, course.claims, draft.lives, capacity_bytes)
        try:
            placement = allocate(problem, 0)
            break
        except CapacityExceeded as error:
            if all(position == use.first for position, use in zip(earliest, uses, strict=True)):
                raise
            room -= max(error.needed_bytes - capacity_bytes, capacity_bytes // 32, 1)
    buffers = [Buffer(item.name, "activation", item.n_bytes, item.ring_rows, item.window) for item in draft.lives]
    buffers += [use.buffer for use in uses]
    plan = Plan({kernel.node: kernel for kernel in draft.kernels}, tuple(buffers), tasks, draft.streamed)
    crowded = tuple(interleave(draft.crowded, uses, course.positions, limits))
    return Placed(with_addresses(plan, placement), crowded, problem, placement)


def with_addresses(plan: Plan, placement: Placement) -> Plan:
    """The plan with its buffers where the placement has them."""
    return replace(plan, buffers=tuple(replace(item, address=placement.offsets[item.name]) for item in plan.buffers))


def _problem(
    tasks: Sequence[Task],
    uses: Sequence[ParameterUse],
    claims: Sequence[int],
    lives: Sequence[Live],
    capacity_bytes: int,
) -> Problem:
    """Live ranges over program order: loads count as tasks."""
    at = [i for i, task in enumerate(tasks) if not isinstance(task, Load)] or [0]
    ranges = [
        Range(item.name, 0 if item.first == 0 else at[item.first], at[item.last] + 1, aligned(item.n_bytes), 16)
        for item in lives
    ]
    ranges += [
        Range(use.buffer.name, at[claim - 1] + 1 if claim else 0, at[use.last] + 1, aligned(use.buffer.n_bytes), 16)
        for use, claim in zip(uses, claims, strict=True)
    ]
    return Problem(tuple(ranges), capacity_bytes)
