"""Wait conditions from physical addresses: no task starts before what it touches is settled.

For every granule of SRAM and every queue the counts of the last write and the last read are kept. A task waits for the
writes of what it reads, and for the reads and writes of what it overwrites. Reuse of an address by another buffer is
covered by the same rule. Within its own queue a task needs a condition only to read what the queue wrote: reads and
writes of one queue keep their order; a call on the Arm core needs none, because it starts when the one before it has
ended. A condition that an earlier task of the queue already waited for is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from isa.instructions import CONDITIONS, Queue

GRANULE_BYTES = 16
QUEUES = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC, Queue.ARM)

Conditions = list[tuple[Queue, int]]
Intervals = Iterable[tuple[int, int]]


class WaitTracker:
    """Follows tasks in program order and gives each its (queue, count) conditions."""

    def __init__(self, sram_bytes: int) -> None:
        granules = -(-sram_bytes // GRANULE_BYTES) + 1
        self._written = np.zeros((len(QUEUES), granules), np.int64)
        self._read = np.zeros((len(QUEUES), granules), np.int64)
        self._issued = dict.fromkeys(QUEUES, 0)
        self._last: dict[str, tuple[Queue, int]] = {}
        self._loads, self._fetched_behind = 0, 0
        self._known = {queue: dict.fromkeys(QUEUES, 0) for queue in QUEUES}

    def loads_before(self) -> Conditions:
        """Condition that the loads have ended that the instructions before the one visited last wait for; none where an
        earlier call gave it."""
        if self._loads == self._fetched_behind:
            return []
        self._fetched_behind = self._loads
        return [(Queue.DMA_IN, self._loads)]

    def visit(
        self, queue: Queue, reads: Intervals, writes: Intervals, *, kernel: str = "", after: str = ""
    ) -> tuple[Conditions, Conditions]:
        """Conditions of the next instruction or call of `queue`, which reads and writes these byte intervals of SRAM.

        It works for `kernel`, and waits for everything so far that works for the kernel `after`.
        Those beyond the three that it holds come first, for a `wait` that the caller puts before it.
        """
        self._loads = max(known[Queue.DMA_IN] for known in self._known.values())
        read, write = [_granules(i) for i in reads], [_granules(i) for i in writes]
        needed = np.zeros(len(QUEUES), np.int64)
        for part in read:
            np.maximum(needed, self._written[:, part].max(axis=1), out=needed)
        own = 0 if queue == Queue.ARM else needed[QUEUES.index(queue)]
        for part in write:
            np.maximum(needed, self._written[:, part].max(axis=1), out=needed)
            np.maximum(needed, self._read[:, part].max(axis=1), out=needed)
        needed[QUEUES.index(queue)] = own
        if after in self._last:
            other, count = self._last[after]
            needed[QUEUES.index(other)] = max(int(needed[QUEUES.index(other)]), count)
        conditions = []
        for index, other in enumerate(QUEUES):
            count = int(needed[index])
            if count > self._known[queue][other]:
                self._known[queue][other] = count
                conditions.append((other, count))
        extra = conditions[:-CONDITIONS]
        self._issued[queue] += 2 if extra else 1
        if kernel:
            self._last[kernel] = queue, self._issued[queue]
        row = QUEUES.index(queue)
        for part in read:
            self._read[row, part] = self._issued[queue]
        for part in write:
            self._written[row, part] = self._issued[queue]
        return extra, conditions[len(extra) :]


def _granules(interval: tuple[int, int]) -> slice:
    return slice(interval[0] // GRANULE_BYTES, -(-interval[1] // GRANULE_BYTES))
