"""Happens-before from progress counters: vector clocks, and the proof that no timing deadlocks.

The clock of an instruction holds, per queue, how many instructions have certainly retired when it starts: those its
conditions count, those that had retired when one of these started, those that its predecessor in the queue or the
fetcher already waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from isa.instructions import Queue
from npuc.verify.binary import Decoded

COUNTED = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC)
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


def unwrap(code: Sequence[Decoded]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The conditions with their full counts: a count behind the instruction is a wait for a later one."""
    seen = [0] * len(Queue)
    result = []
    for item in code:
        result.append(tuple((int(queue), _full_count(count, seen[queue])) for queue, count in item.conditions))
        seen[item.queue] += 1
    return tuple(result)


def _full_count(count: int, before: int) -> int:
    behind = (before - count) % COUNTER_RANGE
    return before - behind if behind < HALF else before + (count - before) % COUNTER_RANGE


def may_wrap(code: Sequence[Decoded], depth: int) -> Iterator[tuple[int, int]]:
    """(index, queue) of conditions that a counter may leave behind by half its range while the instruction waits.

    Until an instruction starts, the fetcher gets at most `depth` instructions of its queue further.
    """
    totals = [sum(item.queue == queue for item in code) for queue in COUNTED]
    if max(totals) < HALF:
        return
    own: dict[int, list[int]] = {queue: [i.index for i in code if i.queue == queue] for queue in Queue}
    seen = [[0] * len(COUNTED)]
    for item in code:
        seen.append([n + (item.queue == queue) for n, queue in zip(seen[-1], COUNTED, strict=True)])
    for item, waits in zip(code, unwrap(code), strict=True):
        line = own[item.queue]
        reach = line[min(item.number + depth, len(line) - 1)] + 1
        yield from ((item.index, queue) for queue, count in waits if seen[reach][queue] - count >= HALF)


def establish(code: Sequence[Decoded], depth: int) -> Ordering:
    """Order and clocks. Whether a program gets stuck does not depend on timing: counters only grow."""
    waits = unwrap(code)
    seen = [0] * len(Queue)
    backwards = True
    for item, conditions in zip(code, waits, strict=True):
        backwards &= all(count <= seen[queue] for queue, count in conditions)
        seen[item.queue] += 1
    order, stuck = (tuple(range(len(code))), ()) if backwards else _run(code, waits, depth)
    return Ordering(order, {} if stuck else _clocks(code, waits, order), stuck, waits)


def _run(
    code: Sequence[Decoded], waits: tuple[tuple[tuple[int, int], ...], ...], depth: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Run with the fetcher and queues of `depth` entries, each held until its instruction retires."""
    retired = [0] * len(Queue)
    queues: dict[Queue, list[int]] = {queue: [] for queue in COUNTED}
    order: list[int] = []
    fetched = 0

    def holds(index: int) -> bool:
        return all(count <= retired[queue] for queue, count in waits[index])

    progress = True
    while progress:
        progress = False
        if fetched < len(code):
            queue = code[fetched].queue
            if queue is Queue.FETCH and holds(fetched):
                order.append(fetched)
                fetched, progress = fetched + 1, True
            elif queue is not Queue.FETCH and len(queues[queue]) < depth:
                queues[queue].append(fetched)
                fetched, progress = fetched + 1, True
        for queue, line in queues.items():
            if line and holds(line[0]):
                order.append(line.pop(0))
                retired[queue] += 1
                progress = True
    heads = [line[0] for line in queues.values() if line]
    return tuple(order), tuple(heads or ([fetched] if fetched < len(code) else []))


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
        clocks[index] = by_number[item.queue, item.number] = tuple(clock)
    return clocks


def _fetched_before(code: Sequence[Decoded]) -> list[int]:
    """By index: the last instruction before it that the fetcher executes itself; -1 if there is none."""
    last, result = -1, []
    for item in code:
        result.append(last)
        if item.queue is Queue.FETCH:
            last = item.index
    return result
