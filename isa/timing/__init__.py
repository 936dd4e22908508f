"""Cycle costs: `work_of` turns decoded instructions into amounts, `simulate` turns amounts into times."""

from isa.timing.bound import bound_cycles, scale_sim_cycles
from isa.timing.energy import Spent, Usage, energy_report, spent, usage_of
from isa.timing.mac import block_fits
from isa.timing.scoreboard import (
    TICKS,
    Blocked,
    Deadlock,
    Resource,
    Schedule,
    TickClass,
    Timeline,
    schedule_of,
    simulate,
)
from isa.timing.work import Work, least_work_of, queue_of, work_of, work_of_one

__all__ = [
    "TICKS",
    "Blocked",
    "Deadlock",
    "Resource",
    "Schedule",
    "Spent",
    "TickClass",
    "Timeline",
    "Usage",
    "Work",
    "block_fits",
    "bound_cycles",
    "energy_report",
    "least_work_of",
    "queue_of",
    "scale_sim_cycles",
    "schedule_of",
    "simulate",
    "spent",
    "usage_of",
    "work_of",
    "work_of_one",
]
