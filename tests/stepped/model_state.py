"""What changes from cycle to cycle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.stepped.model_plan import RESOURCES, STREAMS, UNITS, Ints, Plan

BUSY, ON_FLASH, ON_DRAM, ON_PORT, ON_STAGE, ON_LATENCY, ON_FETCH, ON_CONDITION = range(8)
"""What a cycle of a queue was spent on; ON_CONDITION + q: a condition on queue q."""

CLASSES = ON_CONDITION + 5

AT, PHASE, TIMER, FETCHED, DISPATCHED_BYTES, LEFT = range(6)
"""Entries of `fetcher`."""

NOW, GRANTS = range(2)
"""Entries of `clock`."""


class State(NamedTuple):
    """Counters are of the unit since the start, as indices in the plan are."""

    clock: Ints
    dispatched: Ints
    started: Ints
    complete: Ints
    """Instructions whose last byte is written; they retire when their drain is over."""
    retired: Ints
    steps: Ints
    step_cycles: Ints
    """Cycles spent in the present step."""
    step_limit: Ints
    """Steps of instructions that have started."""
    jobs: Ints
    """[UNITS, STREAMS]"""
    job_amount: Ints
    job_limit: Ints
    pending: Ints
    """[UNITS, RESOURCES]: words that wait for their port."""
    issued: Ints
    """Words that the datapath has made; they are delayed, then pending, then written."""
    written: Ints
    delayed: Ints
    """[UNITS, RESOURCES, delay]: words on their way; a ring over cycles."""
    staged: Ints
    """Output stage: elements that came out of the array, elements done, blocks done, unused rate."""
    turn: Ints
    """[RESOURCES]: who is served next."""
    fetcher: Ints
    spent: Ints
    """[UNITS, CLASSES]"""
    start: Ints
    retire: Ints
    ready: Ints
    """When the lead of an instruction is over."""
    done: Ints
    """When the drain of an instruction is over."""


MADE, STAGED, OUT, BUDGET = range(4)
"""Entries of `staged`."""


def initial_state(plan: Plan) -> State:
    """Everything empty, the fetcher waiting for the first byte."""
    n = len(plan.queue)
    delay = int(plan.write_delay.max(initial=0)) + 2

    def zeros(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    return State(
        clock=zeros(2),
        dispatched=zeros(UNITS),
        started=zeros(UNITS),
        complete=zeros(UNITS),
        retired=zeros(UNITS),
        steps=zeros(UNITS),
        step_cycles=zeros(UNITS),
        step_limit=zeros(UNITS),
        jobs=zeros(UNITS, STREAMS),
        job_amount=zeros(UNITS, STREAMS),
        job_limit=zeros(UNITS, STREAMS),
        pending=zeros(UNITS, RESOURCES),
        issued=zeros(UNITS, RESOURCES),
        written=zeros(UNITS, RESOURCES),
        delayed=zeros(UNITS, RESOURCES, delay),
        staged=zeros(4),
        turn=zeros(RESOURCES),
        fetcher=zeros(6),
        spent=zeros(UNITS, CLASSES),
        start=zeros(n) - 1,
        retire=zeros(n) - 1,
        ready=zeros(n),
        done=zeros(n),
    )
