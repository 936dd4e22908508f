"""When every instruction runs: the timing pass, which needs no data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from isa.instructions import BY_OPCODE, Queue
from isa.target import Target
from isa.timing import Schedule, TickClass, Timeline, Work, schedule_of, simulate, work_of
from simulator.errors import SimulatorFault
from simulator.program import Program


@dataclass(frozen=True)
class TraceRow:
    """One instruction of a trace; times in ticks of 1/1024 cycle."""

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
        """What each instruction asks of each resource."""
        return work_of(self.program.columns, self.target)

    @cached_property
    def schedule(self) -> Schedule:
        """Queues and conditions."""
        return schedule_of(self.program.columns)

    @cached_property
    def timeline(self) -> Timeline:
        """Start and end of every instruction; SimulatorFault for a deadlock, naming the heads of the queues."""
        timeline = simulate(self.work, self.schedule, self.target)
        if timeline.deadlock is not None:
            raise SimulatorFault(
                f"deadlock: {timeline.deadlock}",
                "let every condition wait for an instruction that can retire before it",
            )
        return timeline

    def trace(self) -> list[TraceRow]:
        """All instructions in program order."""
        times = self.timeline
        columns = zip(
            self.program.code.opcode.tolist(),
            self.schedule.queue.tolist(),
            times.start.tolist(),
            times.issue_end.tolist(),
            times.retire.tolist(),
            times.stall.tolist(),
            strict=True,
        )
        return [
            TraceRow(i, BY_OPCODE[opcode].mnemonic, Queue(queue), start, issue_end, retire, TickClass(stall))
            for i, (opcode, queue, start, issue_end, retire, stall) in enumerate(columns)
        ]


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
