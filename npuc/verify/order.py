"""Happens-before from progress counters: vector clocks, and the proof that no timing deadlocks.

The clock of an instruction holds, per queue, how many instructions have certainly retired when it starts: those its
conditions count, those that had retired when one of these started, those that its predecessor in the queue or the
fetcher already waited for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from isa.instructions import Queue
from npuc.verify.binary import Decoded

COUNTED = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC, Queue.ARM)
COUNTER_RANGE = 1 << 16
HALF = COUNTER_RANGE // 2

Clock = tuple[int, ...]
"""Retired instructions by queue number."""


@dataclass(frozen=True)
class Ordering:
    """`order`: indices in an order in which they may run, one after the other; `clocks` by index, empty if stuck.

    `stuck` are the instructions that can never start, heads of their queues.
    """

    order: tuple[int, ...]
    clocks: dict[int, Clock]
    stuck: tuple[int, ...]
    waits: tuple[tuple[tuple[int, int], ...], ...]
    """Conditions by index: (queue, count that is not modulo 2^16)."""


class _Walk:
    """The instructions in program order, every call as soon as its conditions hold: full counts, and an order."""

    def __init__(self, code: Sequence[Decoded]) -> None:
        self._seen = [0] * len(Queue)
        self._calls = deque(item for item in code if item.queue == Queue.ARM)
        self.waits: dict[int, tuple[tuple[int, int], ...]] = {}
        self.order: list[int] = []
        self.is_ordered = True
        self._ready_calls()
        for item in code:
            if item.queue != Queue.ARM:
                self._step(item)
                self._ready_calls()
        while self._calls:
            self._step(self._calls.popleft())

    def _ready_calls(self) -> None:
        while self._calls and all(count <= self._seen[queue] for queue, count in self._full(self._calls[0])):
            self._step(self._calls.popleft())

    def _step(self, item: Decoded) -> None:
        waits = self.waits[item.index] = self._full(item)
        self.is_ordered &= all(count <= self._seen[queue] for queue, count in waits)
        self.order.append(item.index)
        self._seen[item.queue] += 1

    def _full(self, item: Decoded) -> tuple[tuple[int, int], ...]:
        """Conditions with full counts: one behind what has been seen is a wait for what comes later."""
        return tuple((int(queue), _full_count(count, self._seen[queue])) for queue, count in item.conditions)


def _full_count(count: int, before: int) -> int:
    behind = (before - count) % COUNTER_RANGE
    return before - behind if behind < HALF else before + (count - before) % COUNTER_RANGE


def may_wrap(code: Sequence[Decoded], ordering: Ordering, depth: int) -> Iterator[tuple[int, int]]:
    """(index, queue) of conditions whose counter may be half its range away while the instruction or call waits.

    Until an instruction starts, the fetcher gets at most `depth` instructions of its queue further, so that counters
    of the NPU are never far behind it, either.
    """
    lines: dict[int, list[int]] = {queue: [i.index for i in code if i.queue == queue] for queue in Queue}
    far = [
        (item, queue, count)
        for item, waits in zip(code, ordering.waits, strict=True)
        for queue, count in waits
        if len(lines[queue]) - count >= HALF or count > HALF
    ]
    seen = _seen_before(code) if far else []
    for item, queue, count in far:
        line = lines[item.queue]
        if Queue.ARM in (queue, item.queue):
            if _strays(item, queue, count, lines, ordering):
                yield item.index, queue
        elif seen[line[min(item.number + depth, len(line) - 1)] + 1][queue] - count >= HALF:
            yield item.index, queue


def _seen_before(code: Sequence[Decoded]) -> list[list[int]]:
    """By index: instructions of each queue that stand before it."""
    seen = [[0] * len(COUNTED)]
    for item in code:
        seen.append([n + (item.queue == queue) for n, queue in zip(seen[-1], COUNTED, strict=True)])
    return seen


def _strays(item: Decoded, queue: int, count: int, lines: Mapping[int, list[int]], ordering: Ordering) -> bool:
    """Calls and the queues that they wait for run apart as far as their clocks let them."""
    if not ordering.clocks:
        return False
    line = lines[item.queue]
    before = ordering.clocks[line[item.number - 2]][queue] if item.number > 1 else 0
    ahead = bisect_left(lines[queue], item.number, key=lambda index: ordering.clocks[index][item.queue])
    return ahead - count >= HALF or count - before > HALF


def establish(code: Sequence[Decoded], depth: int) -> Ordering:
    """Order and clocks. Whether a program gets stuck does not depend on timing: counters only grow."""
    walk = _Walk(code)
    waits = tuple(walk.waits[item.index] for item in code)
    order, stuck = (tuple(walk.order), ()) if walk.is_ordered else _run(code, waits, depth)
    return Ordering(order, {} if stuck else _clocks(code, waits, order), stuck, waits)


def _run(
    code: Sequence[Decoded], waits: tuple[tuple[tuple[int, int], ...], ...], depth: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Run with the fetcher and queues of `depth` entries, each held until its instruction retires.

    Calls are not fetched: the driver has them all from the start.
    """
    retired = [0] * len(Queue)
    queues: dict[Queue, deque[int]] = {queue: deque() for queue in COUNTED}
    queues[Queue.ARM].extend(item.index for item in code if item.queue == Queue.ARM)
    n_fetched = len(code) - len(queues[Queue.ARM])
    order: list[int] = []
    fetched = 0

    def holds(index: int) -> bool:
        return all(count <= retired[queue] for queue, count in waits[index])

    progress = True
    while progress:
        progress = False
        if fetched < n_fetched:
            queue = code[fetched].queue
            if queue is Queue.FETCH and holds(fetched):
                order.append(fetched)
                fetched, progress = fetched + 1, True
            elif queue is not Queue.FETCH and len(queues[queue]) < depth:
                queues[queue].append(fetched)
                fetched, progress = fetched + 1, True
        for queue, line in queues.items():
            if line and holds(line[0]):
                order.append(line.popleft())
                retired[queue] += 1
                progress = True
    heads = [line[0] for line in queues.values() if line]
    return tuple(order), tuple(heads or ([fetched] if fetched < n_fetched else []))


def _clocks(
    code: Sequence[Decoded], waits: tuple[tuple[tuple[int, int], ...], ...], order: tuple[int, ...]
) -> dict[int, Clock]:
    """Clocks, given an order in which every instruction comes after all that it waits for.

    The conditions of a fetched instruction hold up everything behind it in program order.
    """
    start: Clock = (0,) * len(Queue)
    fetched_before = _fetched_before(code)
    by_number: dict[tuple[int, int], Clock] = {}
    clocks: dict[int, Clock] = {-1: start}
    for index in order:
        item = code[index]
        known = [clocks[fetched_before[index]], by_number.get((item.queue, item.number - 1), start)]
        known += [by_number[wait] for wait in waits[index] if wait[1] > 0]
        clock = [max(column) for column in zip(*known, strict=True)]
        for queue, count in waits[index]:
            clock[queue] = max(clock[queue], count)
        if item.queue == Queue.ARM:
            clock[Queue.ARM] = item.number - 1
        clocks[index] = by_number[item.queue, item.number] = tuple(clock)
    return clocks


def _fetched_before(code: Sequence[Decoded]) -> list[int]:
    """By index: the last instruction before it that the fetcher executes itself; -1 if there is none, and of calls."""
    last, result = -1, []
    for item in code:
        result.append(-1 if item.queue == Queue.ARM else last)
        if item.queue is Queue.FETCH:
            last = item.index
    return result
