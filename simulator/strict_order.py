"""What progress counters order: the rows that have certainly retired when another one starts, and deadlocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from isa.instructions import NO_CONDITION, Queue
from simulator.errors import SimulatorFault
from simulator.order import COUNTER_RANGE, UNITS, execution_order
from simulator.program import Column, Program

COUNTED = (*UNITS, Queue.ARM)
"""Queues with a progress counter."""

Wait = tuple[int, int]
"""(queue, retired instructions), not modulo anything."""


def numbers(program: Program) -> Column:
    """[rows]: the number of each within its queue, from 1."""
    queue, result = program.queue, np.zeros(program.n_rows, np.int64)
    for unit in Queue:
        mine = queue == unit
        result[mine] = np.arange(1, mine.sum() + 1)
    return result


def waits(program: Program, order: Sequence[int]) -> list[list[Wait]]:
    """Conditions by row; a count is taken for the one nearest to what comes before the row in `order`."""
    code, queues = program.code, program.queue.tolist()
    wait_queue, wait_count = (
        np.hstack([code.wait_queue, code.more_queue]),
        np.hstack([code.wait_count, code.more_count]),
    )
    pairs = [_pairs(*row) for row in zip(wait_queue.tolist(), wait_count.tolist(), strict=True)]
    pairs += [list(call.conditions) for call in program.calls]
    seen, result = [0] * len(Queue), list[list[Wait]]([] for _ in pairs)
    for row in order:
        result[row] = [(queue, seen[queue] - _ahead(seen[queue] - count)) for queue, count in pairs[row]]
        seen[queues[row]] += 1
    return result


def _pairs(queues: list[int], counts: list[int]) -> list[Wait]:
    return [pair for pair in zip(queues, counts, strict=True) if pair[0] != NO_CONDITION]


def _ahead(difference: int) -> int:
    """The difference modulo the counters' range, in -half .. half - 1."""
    half = COUNTER_RANGE // 2
    return (difference + half) % COUNTER_RANGE - half


def clocks(program: Program, order: Sequence[int]) -> Column:
    """[rows, queues]: how many of each queue have certainly retired when the row starts.

    For programs whose conditions count what comes before them in `order`. Calls run one by one.
    """
    queue, conditions = program.queue.tolist(), waits(program, order)
    result = np.zeros((len(queue), len(Queue)), np.int64)
    fetched = np.zeros(len(Queue), np.int64)
    lines: dict[int, list[int]] = {unit: [] for unit in Queue}
    for row in order:
        clock, unit = result[row], queue[row]
        line = lines[unit]
        if unit != Queue.ARM:
            clock[:] = fetched
        if line:
            np.maximum(clock, result[line[-1]], out=clock)
        for other, count in conditions[row]:
            if count > 0:
                np.maximum(clock, result[lines[other][count - 1]], out=clock)
            clock[other] = max(clock[other], count)
        if unit == Queue.ARM:
            clock[unit] = len(line)
        line.append(row)
        if unit == Queue.FETCH:
            fetched = clock
    return result


def stuck(program: Program) -> list[int]:
    """Rows that never start: heads of their queues, and the one that the fetcher stands at.

    Counters only grow, so one run decides for every timing. A queue holds `queue_depth` instructions that have not
    retired; the Arm core has all its calls from the start.
    """
    state = _Run(program)
    while any(state.advance()):
        pass
    return state.waiting()


def _some_order(program: Program) -> Sequence[int]:
    try:
        return execution_order(program)
    except SimulatorFault:
        return range(program.n_rows)


class _Run:
    def __init__(self, program: Program) -> None:
        self._queue = program.code.queue.tolist()
        self._waits, self._depth = waits(program, _some_order(program)), program.target.costs.queue_depth
        self._retired = [0] * len(Queue)
        self._lines: dict[int, deque[int]] = {unit: deque() for unit in COUNTED}
        self._lines[Queue.ARM].extend(range(len(program.code), program.n_rows))
        self._next = 0

    def advance(self) -> Iterator[bool]:
        """Everything that can happen now: whether the fetcher, and whether each queue, came further."""
        yield self._fetch()
        for unit, line in self._lines.items():
            moved = bool(line) and self._holds(line[0])
            if moved:
                line.popleft()
                self._retired[unit] += 1
            yield moved

    def waiting(self) -> list[int]:
        """The instructions that everything stands at."""
        heads = [line[0] for line in self._lines.values() if line]
        return sorted({*heads, self._next} if self._next < len(self._queue) else heads)

    def _fetch(self) -> bool:
        if self._next == len(self._queue):
            return False
        unit = self._queue[self._next]
        if unit == Queue.FETCH:
            moves = self._holds(self._next)
        else:
            moves = len(self._lines[unit]) < self._depth
            if moves:
                self._lines[unit].append(self._next)
        self._next += moves
        return moves

    def _holds(self, index: int) -> bool:
        return all(self._retired[queue] >= count for queue, count in self._waits[index])
