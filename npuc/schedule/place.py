"""From a draft to a placed plan: loads in program order, addresses for every buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isa.target import Target
from npuc.allocation import Buffer as Range
from npuc.allocation import CapacityExceeded, Placement, Problem, allocate
from npuc.schedule.draft import Draft
from npuc.schedule.estimate import Course, follow
from npuc.schedule.memory import Live, aligned
from npuc.schedule.parameters import ParameterUse, interleave, place_loads
from npuc.task.task import Buffer, Load, Plan, Task

CLAIMED_AHEAD = 4
"""Tasks by which a buffer is its load's own before the bytes are expected, unless a proof asks for fewer."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A plan with addresses, the allocation problem they solve, and what it was made from; equal when identical.

    `crowded` are its tasks with the block shapes that leave a part of the port to loads.
    """

    plan: Plan
    crowded: tuple[Task, ...]
    problem: Problem
    placement: Placement
    draft: Draft
    uses: Sequence[ParameterUse]
    course: Course

    def problem_of(self, ahead: int) -> Problem:
        """The problem when buffers are claimed `ahead` tasks before their bytes are expected."""
        return _problem(self.plan.tasks, self.uses, self.course.claims(ahead), self.draft.lives)


Earliest = tuple[int, ...]
"""Of each load the task before which memory has room for it."""


def place(
    draft: Draft,
    uses: Sequence[ParameterUse],
    limits: Sequence[int],
    capacity_bytes: int,
    target: Target,
    known: dict[Earliest, Placed] | None = None,
) -> Placed:
    """Addresses for a draft; loads move later until everything fits, CapacityExceeded when that is not enough.

    `known` keeps what was placed of this draft with these loads, for other capacities.
    """
    known, room = {} if known is None else known, capacity_bytes
    while True:
        earliest = tuple(place_loads(uses, draft.live, room, limits))
        if earliest not in known:
            known[earliest] = _lay_out(draft, uses, limits, earliest, target)
        found = known[earliest]
        needed_bytes = found.placement.peak_bytes
        if needed_bytes <= capacity_bytes:
            return found
        if all(position == use.first for position, use in zip(earliest, uses, strict=True)):
            raise CapacityExceeded(capacity_bytes, found.placement, found.problem)
        room -= max(needed_bytes - capacity_bytes, capacity_bytes // 32, 1)


def _lay_out(
    draft: Draft, uses: Sequence[ParameterUse], limits: Sequence[int], earliest: Earliest, target: Target
) -> Placed:
    course = follow(draft, uses, earliest, target)
    tasks = tuple(interleave(draft.computes, uses, course.positions, limits))
    problem = _problem(tasks, uses, course.claims(CLAIMED_AHEAD), draft.lives)
    placement = allocate(problem, 0)
    buffers = [Buffer(item.name, "activation", item.n_bytes, item.ring_rows, item.window) for item in draft.lives]
    buffers += [use.buffer for use in uses]
    plan = Plan({kernel.node: kernel for kernel in draft.kernels}, tuple(buffers), tasks, draft.streamed)
    crowded = tuple(interleave(draft.crowded, uses, course.positions, limits))
    return Placed(with_addresses(plan, placement), crowded, problem, placement, draft, uses, course)


def with_addresses(plan: Plan, placement: Placement) -> Plan:
    """The plan with its buffers where the placement has them."""
    return replace(plan, buffers=tuple(replace(item, address=placement.offsets[item.name]) for item in plan.buffers))


def _problem(
    tasks: Sequence[Task], uses: Sequence[ParameterUse], claims: Sequence[int], lives: Sequence[Live]
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
    return Problem(tuple(ranges))
