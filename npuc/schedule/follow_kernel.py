"""Drafts as arrays, and how their tasks and loads run: the loops of `estimate.py`.

Compiled where numba is installed, and the same as Python where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from isa.timing.compiled import compiled
from npuc.graph.types import Array
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import Choice
from npuc.task.task import Work

QUEUE, KERNEL, CYCLES, ROOF, FLASH = range(5)
"""Columns of `tasks`: queue and number of the kernel, cycles alone and at least, bytes of flash."""
FIRST, BYTES = range(2)
"""Columns of `loads`: the first task that needs a buffer, its bytes."""
N_QUEUES = 8


@dataclass(frozen=True)
class TaskTable:
    """Tasks of a draft [n, 5]. Kernel k reads the storages `reads` from read_start[k] to read_start[k + 1] and writes
    writes[k], of `n_storages`; `port_words` of all tasks together."""

    tasks: Array
    read_start: Array
    reads: Array
    writes: Array
    n_storages: int
    port_words: int


def table_of(kernels: Sequence[Kernel], computes: Sequence[Work], costs: Sequence[Choice]) -> TaskTable:
    """The tasks `computes` of kernels, with what each costs."""
    number = {kernel.node: i for i, kernel in enumerate(kernels)}
    storages: dict[str, int] = {}
    reads = [sorted(kernel.reads) for kernel in kernels]
    places = [storages.setdefault(name, len(storages)) for names in reads for name in names]
    writes = [storages.setdefault(kernel.ofm.storage, len(storages)) for kernel in kernels]
    rows = [
        (task.queue, number[task.kernel], cost.cycles, cost.least.roof_cycles, cost.amounts.flash_bytes)
        for task, cost in zip(computes, costs, strict=True)
    ]
    return TaskTable(
        np.array(rows, np.int64).reshape(len(rows), 5),
        np.array([0, *accumulate(map(len, reads))], np.int64),
        np.array(places, np.int64),
        np.array(writes, np.int64),
        len(storages),
        sum(cost.amounts.port_words for cost in costs),
    )


@compiled
def least(tasks: Array, loads: Array, earliest: Array, rate: int, ends: Array) -> int:
    """Cycles that the units and the flash need at least, with loads no sooner than memory and `earliest` allow.

    ends [n tasks] is scratch.
    """
    loaded, unit = np.zeros(len(tasks) + 1, np.int64), np.zeros(N_QUEUES, np.int64)
    flash = at = last = 0
    for i in range(len(tasks)):
        while at < len(loads) and earliest[at] <= i:
            if i and earliest[at] > (earliest[at - 1] if at else 0):
                flash = max(flash, ends[i - 1])
            flash += loads[at, BYTES] // rate
            loaded[loads[at, FIRST]] = flash
            at += 1
        ends[i] = max(unit[tasks[i, QUEUE]], loaded[i]) + tasks[i, ROOF]
        unit[tasks[i, QUEUE]] = ends[i]
        last = max(last, ends[i])
    return int(last)


@compiled
def follow(tasks: Array, read_start: Array, reads: Array, writes: Array, loads: Array, earliest: Array,
           written: Array, depth: int, rate: int, task_bytes: int, descriptor_bytes: int, ends: Array,
           positions: Array, ended_at: Array) -> None:  # fmt: skip
    """Run tasks whose loads may stand no earlier than before the tasks `earliest` [n loads].

    Found: ends [n tasks] of the tasks; of the loads [n loads] the task before which each stands in the program, and how
    many tasks had ended, in order, when it began. written [n storages] is scratch, zeros at first. Queues hold `depth`
    instructions, flash delivers `rate` bytes a cycle; a task takes `task_bytes` of it, and `descriptor_bytes` more
    behind one of another kernel.
    """
    n_loads = len(loads)
    starts, counts = np.zeros((N_QUEUES, depth), np.int64), np.zeros(N_QUEUES, np.int64)
    load_starts, loaded = np.zeros(depth, np.int64), np.zeros(len(tasks) + 1, np.int64)
    unit = np.zeros(N_QUEUES, np.int64)
    at = flash = fetched = ended = 0
    described = -1
    for i in range(len(tasks)):
        queue, kernel, cycles = tasks[i, QUEUE], tasks[i, KERNEL], tasks[i, CYCLES]
        room = starts[queue, counts[queue] % depth] if counts[queue] >= depth else 0
        handed = -1  # when the fetcher hands over the task, once all loads are before it that have to be
        while True:
            if handed < 0 and not (at < n_loads and loads[at, FIRST] <= i):
                handed = max(fetched, room)
            load_room = load_starts[at % depth] if at >= depth else 0
            if handed >= 0:
                # The next load costs the task no time: it has room in memory and in the queue before the task has, and
                # the task waits for its own queue, or the stream would stop.
                if at == n_loads or earliest[at] > i or load_room > handed:
                    break
                if handed <= fetched and flash > handed:
                    break
            fetched = max(fetched, load_room)
            start = max(flash, fetched)
            held = earliest[at]
            if held and held > (earliest[at - 1] if at else 0):
                start = max(start, ends[held - 1])
            while ended < i and ends[ended] <= start:
                ended += 1
            load_starts[at % depth] = start
            flash = start + loads[at, BYTES] // rate
            loaded[loads[at, FIRST]] = flash
            positions[at], ended_at[at] = i, ended
            at += 1
        fetched = max(fetched, handed)
        start = max(unit[queue], loaded[i])
        for read in range(read_start[kernel], read_start[kernel + 1]):
            start = max(start, written[reads[read]])
        flash += (task_bytes + (descriptor_bytes if kernel != described else 0)) // rate
        described = kernel
        read_cycles = tasks[i, FLASH] // rate
        if read_cycles:  # loads take half of the flash meanwhile
            flash = max(flash, start) + read_cycles
            start = max(start, min(flash, start + 2 * read_cycles) - cycles)
        ends[i] = unit[queue] = written[writes[kernel]] = start + cycles
        starts[queue, counts[queue] % depth] = start
        counts[queue] += 1
