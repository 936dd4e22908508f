"""The order in which data are computed: instructions in program order, each call as soon as its conditions hold."""

from __future__ import annotations

import numpy as np

from isa.instructions import Queue
from simulator.program import Column, Program

COUNTER_RANGE = 1 << 16
"""Progress counters have 16 bits and are compared modulo this."""

UNITS = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC)
HINT = "place it behind the instruction that it waits for"


def execution_order(program: Program) -> list[int]:
    """All rows; SimulatorFault for one that waits for something behind it: program order would be wrong."""
    places = call_places(program)
    _check_instructions(program, places)
    n = len(program.code)
    order: list[int] = []
    for index, place in enumerate(places.tolist()):
        order += [*range(len(order) - index, place), n + index]
    return [*order, *range(len(order) - len(places), n)]


def call_places(program: Program) -> Column:
    """[calls]: instructions in program order before each call; SimulatorFault for one that never starts."""
    queue, place, places = program.code.queue, 0, []
    lines = {unit: np.flatnonzero(queue == unit) for unit in UNITS} if program.calls else {}
    for index, call in enumerate(program.calls):
        for unit, count in call.conditions:
            line = lines[unit]
            before = int(np.searchsorted(line, place))
            missing = (count - before) % COUNTER_RANGE
            if missing > COUNTER_RANGE // 2:
                continue
            if before + missing > len(line):
                site = program.site(len(program.code) + index)
                there = f"waits for {unit.name.lower()} to retire {count}, there are {len(line)}"
                raise site.fault(there, "let it wait for instructions of the program")
            place = int(line[before + missing - 1]) + 1 if missing else place
        places.append(place)
    return np.array(places, np.int64)


def _check_instructions(program: Program, places: Column) -> None:
    code, rows = program.code, np.arange(len(program.code))
    for kind in ("wait", "more"):
        queues, counts = getattr(code, f"{kind}_queue"), getattr(code, f"{kind}_count")
        for queue in (*UNITS, Queue.ARM):
            is_queue = code.queue == queue
            before = np.cumsum(is_queue) - is_queue
            if queue == Queue.ARM:
                before = np.searchsorted(places, rows, "right")
            late = (queues == queue) & ((before[:, None] - counts) % COUNTER_RANGE >= COUNTER_RANGE // 2)
            if late.any():
                row, column = (int(i) for i in np.argwhere(late)[0])
                found = f"{before[row]} stand before it"
                message = f"waits for {queue.name.lower()} to retire {counts[row, column]}, {found}"
                raise program.site(row).fault(message, HINT)
