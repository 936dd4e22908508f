"""Holds the timing of `isa.timing` against the stepped model: total cycles, and stall cycles by queue and class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isa.instructions import Queue
from isa.target import Target
from isa.timing import TICKS, TickClass, Timeline, schedule_of, simulate, work_of
from simulator.program import load
from tests.stepped import model_state as stepped
from tests.stepped.model import Stepped, step_program
from tests.stepped.model_plan import UNITS, Ints

CLASSES = {
    TickClass.BUSY: stepped.BUSY,
    TickClass.FLASH: stepped.ON_FLASH,
    TickClass.DRAM: stepped.ON_DRAM,
    TickClass.SRAM_PORT: stepped.ON_PORT,
    TickClass.OUTPUT_STAGE: stepped.ON_STAGE,
    TickClass.LATENCY: stepped.ON_LATENCY,
    TickClass.FETCH: stepped.ON_FETCH,
    **{TickClass[f"CONDITION_{queue.name}"]: stepped.ON_CONDITION + queue for queue in Queue if queue != Queue.FETCH},
}


@dataclass(frozen=True)
class Comparison:
    """Both models on one program; tables are cycles [queue, class of the stepped model]."""

    scoreboard: Timeline
    stepped: Stepped
    scoreboard_spent: Ints

    @property
    def error(self) -> float:
        """Relative error of the scoreboard's total."""
        return self.scoreboard.total_cycles / max(self.stepped.cycles, 1) - 1


def compare(container: bytes, target: Target) -> Comparison:
    """Run a program on both models."""
    columns = load(container).columns
    schedule = schedule_of(columns)
    timeline = simulate(work_of(columns, target), schedule, target)
    ticks = timeline.queue_ticks(schedule)[:UNITS]
    spent = np.zeros((UNITS, stepped.CLASSES), np.int64)
    for theirs, ours in CLASSES.items():
        spent[:, ours] = -(-ticks[:, theirs] // TICKS)
    return Comparison(timeline, step_program(container, target), spent)


def agreement(comparisons: Sequence[Comparison]) -> float:
    """Share of the stall cycles of all these programs that both models charge to the same queue and class."""
    first = np.array([comparison.scoreboard_spent[:, 1:] for comparison in comparisons])
    second = np.array([comparison.stepped.spent[:, 1:] for comparison in comparisons])
    return float(np.minimum(first, second).sum() / max(first.sum(), second.sum(), 1))
