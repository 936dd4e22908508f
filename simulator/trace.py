"""When every instruction runs: the timing pass, which needs no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isa.arm_calls import ArmCall
from isa.instructions import CONDITIONS, NO_CONDITION, Queue
from isa.target import Target
from isa.timing import Deadlock, Schedule, TickClass, Timeline, Work, schedule_of, simulate, work_of
from simulator.errors import SimulatorFault
from simulator.program import Column, Program

CALL = "arm.call"
"""What stands for the mnemonic of a call of the Arm core."""


@dataclass(frozen=True)
class TraceRow:
    """One row of a program, an instruction or a call; times in ticks of 1/1024 cycle."""

    index: int
    mnemonic: str
    queue: Queue
    start: int
    issue_end: int
    retire: int
    stall: TickClass
    """What cost it most time beyond its own work; BUSY when nothing did."""


@dataclass(frozen=True)
class Timing:
    """The timing pass of a program on a target."""

    program: Program
    target: Target

    @cached_property
    def work(self) -> Work:
        """What each row asks of each resource; calls take the cycles that their records say."""
        work, calls = work_of(self.program.columns, self.target), self.program.calls
        return work.with_arm(np.array([call.cycles for call in calls], np.int64)) if calls else work

    @cached_property
    def schedule(self) -> Schedule:
        """Queues and conditions."""
        schedule, calls = schedule_of(self.program.columns), self.program.calls
        return schedule.with_arm(*arm_conditions(calls)) if calls else schedule

    @cached_property
    def timeline(self) -> Timeline:
        """Start and end of every row; SimulatorFault for a deadlock, naming the heads of the queues."""
        timeline = simulate(self.work, self.schedule, self.target)
        if timeline.deadlock is not None:
            raise SimulatorFault(
                f"deadlock: {self._blocked(timeline.deadlock)}",
                "let every condition wait for an instruction that can retire before it",
            )
        return timeline

    def _blocked(self, deadlock: Deadlock) -> str:
        """Calls are rows behind the instructions, with numbers of their own."""
        text, n = str(deadlock), len(self.program.code)
        for head in deadlock.heads:
            if head.queue is Queue.ARM:
                text = text.replace(f"instruction {head.instruction} ", f"arm call {head.instruction - n} ")
        return text

    def trace(self) -> list[TraceRow]:
        """All instructions in program order, then the calls."""
        times, code = self.timeline, self.program.code
        columns = zip(
            [self.program.spec(i).mnemonic for i in range(len(code))] + [CALL] * len(self.program.calls),
            self.schedule.queue.tolist(),
            times.start.tolist(),
            times.issue_end.tolist(),
            times.retire.tolist(),
            times.stall.tolist(),
            strict=True,
        )
        return [
            TraceRow(i, mnemonic, Queue(queue), start, issue_end, retire, TickClass(stall))
            for i, (mnemonic, queue, start, issue_end, retire, stall) in enumerate(columns)
        ]


def arm_conditions(calls: Sequence[ArmCall]) -> tuple[Column, Column]:
    """[calls, conditions]: queues and counts."""
    none = (NO_CONDITION, 0)
    rows = [[*call.conditions, *[none] * (CONDITIONS - len(call.conditions))] for call in calls]
    table = np.array(rows, np.int64)
    return table[:, :, 0], table[:, :, 1]


def timing(program: Program, target: Target | None = None) -> Timing:
    """The timing of a program, on the target that it was compiled for or on another one of the same architecture."""
    target = target or program.target
    if target.fingerprint != program.container.fingerprint:
        raise SimulatorFault(
            f"program has fingerprint {program.container.fingerprint}, target {target.name} has {target.fingerprint}",
            "change only costs and board of the target, or compile the program for it",
        )
    return Timing(program, target)


def timeline(program: Program, target: Target | None = None) -> Timeline:
    """Start and end of every instruction; SimulatorFault for a deadlock."""
    return timing(program, target).timeline
