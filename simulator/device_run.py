"""One run of a program on the device: when instructions retire, as far as the Arm core's calls have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from isa.instructions import NO_CONDITION, Queue
from isa.target import Target
from isa.timing import TICKS, simulate
from simulator.execute import Step
from simulator.machine import Machine
from simulator.program import Program, load
from simulator.trace import Timing, timing

Cycles = npt.NDArray[np.int64]

NEVER = 1 << 62
"""Cycle of what waits for a call that has not ended."""


@dataclass(frozen=True)
class Bound:
    """A program bound to an arena: ready to run, as long as its bytes stay what they were.

    `first` are the cycles at which instructions retire before any call has ended.
    """

    data: bytes
    machine: Machine
    timing: Timing
    first: Cycles


def prepare(data: bytes, target: Target) -> tuple[Program, Timing]:
    """The program, and the timing of its instructions alone; IsaError or SimulatorFault for one that cannot run."""
    program = load(data)
    _ = timing(program, target).timeline  # a program that never ends, all its calls included, is a fault
    return program, timing(replace(program, calls=()), target)


def retirement(alone: Timing, arrivals: Sequence[int]) -> Cycles:
    """[instructions]: the cycle at which each has retired; call i ends at cycle `arrivals[i]`."""
    work, schedule = alone.work, alone.schedule
    if arrivals:
        none = np.full((len(arrivals), 1), NO_CONDITION, np.int64)
        work = work.with_arm(np.array([b - a for a, b in pairwise([0, *arrivals])], np.int64))
        schedule = schedule.with_arm(none, np.zeros_like(none))
    retire = simulate(work, schedule, alone.target).retire[: len(alone.schedule.queue)]
    return np.where(retire < 0, NEVER, -(-retire // TICKS))


class Run:
    """A run that has been started; cycles count from its start."""

    def __init__(self, bound: Bound, n_calls: int) -> None:
        self.bound = bound
        self._arrivals = [0] * n_calls
        self._queue: Cycles = self.program.code.queue
        self._is_done = np.zeros(len(self._queue), np.bool_)
        self._retire = bound.first if not n_calls else retirement(bound.timing, self._arrivals)
        self._plan()

    @property
    def program(self) -> Program:
        """The program, calls included."""
        return self.bound.machine.program

    @property
    def end(self) -> int | None:
        """Cycle at which all instructions have retired; None while that hangs on calls."""
        last = int(self._retire.max())
        return None if last == NEVER else last

    def retired(self, queue: Queue) -> Cycles:
        """Cycles at which the instructions of a queue retire, as far as they are known."""
        cycles = self._retire[self._queue == queue]
        return np.sort(cycles[cycles < NEVER])

    def calls_ended(self, n_calls: int, cycle: int) -> None:
        """So many calls more have ended at this cycle."""
        self._arrivals += [cycle] * n_calls
        self._retire = np.where(self._is_done, self._retire, retirement(self.bound.timing, self._arrivals))
        self._plan()

    def advance_to(self, cycle: int) -> None:
        """Compute what the instructions compute that have retired by now, in the order in which they do."""
        while self._waiting and self._retire[self._waiting[-1]] <= cycle:
            index = self._waiting.pop()
            self._is_done[index] = True
            self._step(index)()

    def _step(self, index: int) -> Step:
        return self.bound.machine.steps.get(index, _nothing)

    def _plan(self) -> None:
        order = np.argsort(self._retire, kind="stable")
        self._waiting: list[int] = order[~self._is_done[order]][::-1].tolist()


def _nothing() -> None:
    """What instructions do that touch no memory."""
