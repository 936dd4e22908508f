"""Wait conditions of all tasks of a plan at once: what `npuc.emit.waits.WaitTracker` gives one task after the other.

Bytes between two neighbouring ends of accesses are always touched together, so only these sections are followed.
Compiled where numba is installed, and the same as Python where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isa.instructions import CONDITIONS, Queue
from isa.timing.compiled import compiled
from npuc.emit.waits import GRANULE_BYTES, QUEUES
from npuc.graph.types import Array

NONE = -1


@dataclass(frozen=True)
class TaskWaits:
    """`counts` [n tasks, n queues]: instructions of each of QUEUES that a task waits for, 0: none. `loads` [n tasks]:
    loads that the instructions before each task waited for."""

    counts: Array
    loads: Array


def waits_of(
    queues: Sequence[Queue],
    kernels: Sequence[int],
    afters: Sequence[int],
    starts: Sequence[int],
    spans: Sequence[tuple[int, int, bool]],
) -> TaskWaits:
    """Waits of tasks in program order: queue, number of the kernel that each works for, and of the one that it comes
    after (NONE); task i touches `spans` starts[i] to starts[i + 1]: first byte, end, whether it writes."""
    queue = np.array([_PLACE[found] for found in queues], np.int64)
    touched = np.array(spans, np.int64).reshape(len(spans), 3)
    granules = np.stack([touched[:, 0] // GRANULE_BYTES, -(-touched[:, 1] // GRANULE_BYTES)], axis=1)
    edges, place = np.unique(granules, return_inverse=True)
    sections = np.concatenate([place.reshape(-1, 2), touched[:, 2:]], axis=1)
    of_kernel, after = np.array(kernels, np.int64), np.array(afters, np.int64)
    n_queues = len(QUEUES)
    last = np.zeros((max([0, *kernels, *afters]) + 1, 2), np.int64)
    state = np.zeros((2, len(edges), n_queues), np.int64)
    counts, loads = np.zeros((len(queue), n_queues), np.int64), np.zeros(len(queue), np.int64)
    _follow(queue, of_kernel, after, np.array(starts, np.int64), sections, _ARM, _DMA_IN, last, state, counts, loads)
    return TaskWaits(counts, loads)


_PLACE = {queue: place for place, queue in enumerate(QUEUES)}
_ARM, _DMA_IN = _PLACE[Queue.ARM], _PLACE[Queue.DMA_IN]


@compiled
def _follow(queue: Array, kernel: Array, after: Array, starts: Array, sections: Array, arm: int, dma_in: int,
            last: Array, state: Array, counts: Array, loads: Array) -> None:  # fmt: skip
    """last [n kernels, 2]: queue and count of a kernel's last instruction; state [2, n sections, n queues]: counts of
    the last read and of the last write."""
    n_queues = counts.shape[1]
    issued, needed = np.zeros(n_queues, np.int64), np.zeros(n_queues, np.int64)
    known = np.zeros((n_queues, n_queues), np.int64)
    before = 0
    for task in range(len(queue)):
        own = queue[task]
        for other in range(n_queues):
            loads[task] = max(loads[task], known[other, dma_in])
        needed[:] = 0
        for is_write in range(2):
            for at in range(starts[task], starts[task + 1]):
                if sections[at, 2] == is_write:
                    for section in range(sections[at, 0], sections[at, 1]):
                        for other in range(n_queues):
                            needed[other] = max(needed[other], state[1, section, other])
                            if is_write:
                                needed[other] = max(needed[other], state[0, section, other])
            if not is_write:
                before = needed[own] if own != arm else 0
        needed[own] = before
        if after[task] >= 0 and last[after[task], 1] > 0:
            needed[last[after[task], 0]] = max(needed[last[after[task], 0]], last[after[task], 1])
        n_conditions = 0
        for other in range(n_queues):
            if needed[other] > known[own, other]:
                known[own, other] = counts[task, other] = needed[other]
                n_conditions += 1
        issued[own] += 2 if n_conditions > CONDITIONS else 1
        if kernel[task] >= 0:
            last[kernel[task], 0], last[kernel[task], 1] = own, issued[own]
        for at in range(starts[task], starts[task + 1]):
            for section in range(sections[at, 0], sections[at, 1]):
                state[sections[at, 2], section, own] = issued[own]
