"""What progress counters order: the instructions that have certainly retired when another one starts, and deadlocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from isa.instructions import NO_CONDITION, Queue
from simulator.program import COUNTER_RANGE, Column, Program

UNITS = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC)

Wait = tuple[int, int]
"""(queue, retired instructions), not modulo anything."""


def numbers(program: Program) -> Column:
    """[instructions]: the number of each within its queue, from 1."""
    queue, result = program.code.queue, np.zeros(len(program.code), np.int64)
    for unit in Queue:
        mine = queue == unit
        result[mine] = np.arange(1, mine.sum() + 1)
    return result


def waits(program: Program) -> list[list[Wait]]:
    """Conditions by instruction; a count is taken for the one nearest to what stands before the instruction."""
    code = program.code
    rows = zip(
        np.hstack([code.wait_queue, code.more_queue]).tolist(),
        np.hstack([code.wait_count, code.more_count]).tolist(),
        strict=True,
    )
    seen, result = [0] * len(Queue), []
    for index, (queues, counts) in enumerate(rows):
        pairs = [pair for pair in zip(queues, counts, strict=True) if pair[0] != NO_CONDITION]
        result.append([(queue, seen[queue] - _ahead(seen[queue] - count)) for queue, count in pairs])
        seen[int(code.queue[index])] += 1
    return result


def _ahead(difference: int) -> int:
    """The difference modulo the counters' range, in -half .. half - 1."""
    half = COUNTER_RANGE // 2
    return (difference + half) % COUNTER_RANGE - half


def clocks(program: Program) -> Column:
    """[instructions, queues]: how many of each queue have certainly retired when the instruction starts.

    For programs whose conditions count instructions before them.
    """
    queue, conditions = program.code.queue.tolist(), waits(program)
    result = np.zeros((len(queue), len(Queue)), np.int64)
    fetched = np.zeros(len(Queue), np.int64)
    lines: dict[int, list[int]] = {unit: [] for unit in Queue}
    for index, unit in enumerate(queue):
        clock = result[index]
        clock[:] = fetched
        if lines[unit]:
            np.maximum(clock, result[lines[unit][-1]], out=clock)
        for other, count in conditions[index]:
            if count > 0:
                np.maximum(clock, result[lines[other][count - 1]], out=clock)
            clock[other] = max(clock[other], count)
        lines[unit].append(index)
        if unit == Queue.FETCH:
            fetched = clock
    return result


def stuck(program: Program) -> list[int]:
    """Instructions that never start: heads of their queues, and the one that the fetcher stands at.

    Counters only grow, so one run decides for every timing. A queue holds `queue_depth` instructions that have not
    retired.
    """
    state = _Run(program)
    while any(state.advance()):
        pass
    return state.waiting()


class _Run:
    def __init__(self, program: Program) -> None:
        self._queue = program.code.queue.tolist()
        self._waits, self._depth = waits(program), program.target.costs.queue_depth
        self._retired = [0] * len(Queue)
        self._lines: dict[int, deque[int]] = {unit: deque() for unit in UNITS}
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
