"""How long a draft takes with its loads in given places, before it has addresses.

Flash delivers load after load. A load that memory keeps from coming earlier waits for the task in front of it to end:
the buffers that are live at that task leave no room for it, wherever they lie. A task waits for its unit, for its
parameters and, in an estimate, for what it reads. Without the last this is a bound: every placement takes longer.

An estimate also follows the fetcher. It hands instructions over in program order and stops at a full queue, and a load
that stands too early in the program keeps it from the tasks behind. So a load stands as late as the queues of its
followers allow: in front of a task for which the fetcher would have to wait anyway, or where the stream would stop.
Its memory is its own from when its bytes come, which is earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isa.target import Target
from npuc.graph.types import Array
from npuc.schedule import follow_kernel as kernel
from npuc.schedule.draft import Draft
from npuc.schedule.parameters import ParameterUse
from npuc.schedule.tile_model import TILE_STREAM_BYTES

DESCRIPTOR_BYTES = 72
"""Of a typical layer's descriptor, which comes through the same flash."""


def lower_bound(draft: Draft, uses: Sequence[ParameterUse], earliest: Sequence[int], target: Target) -> int:
    """Cycles that the units and the flash need at least, with loads no sooner than memory and `earliest` allow."""
    tasks = draft.table.tasks
    limits, ends = np.array(earliest, np.int64), np.zeros(len(tasks), np.int64)
    cycles = kernel.least(tasks, _loads(uses), limits, target.board.flash_bytes_per_cycle, ends)
    return max(cycles, draft.roof_cycles)


@dataclass(frozen=True)
class Course:
    """How a draft runs: expected cycles; of each load the task before which it stands in the program (`positions`), the
    first before which memory has room for it (`earliest`), and how many tasks have ended when its bytes come
    (`ended`)."""

    cycles: int
    positions: list[int]
    earliest: Sequence[int]
    ended: list[int]

    def claims(self, ahead: int) -> list[int]:
        """The task from which each load's buffer is its own: `ahead` tasks before its bytes are expected, so that what
        runs faster than expected need not keep the load waiting for memory."""
        return [max(held, ended - ahead) for held, ended in zip(self.earliest, self.ended, strict=True)]


def follow(draft: Draft, uses: Sequence[ParameterUse], earliest: Sequence[int], target: Target) -> Course:
    """Run a draft whose loads may stand no earlier than before the tasks `earliest`."""
    table, loads = draft.table, _loads(uses)
    ends = np.zeros(len(table.tasks), np.int64)
    positions, ended = np.zeros((2, len(loads)), np.int64)
    kernel.follow(
        table.tasks, table.read_start, table.reads, table.writes, loads, np.array(earliest, np.int64),
        np.zeros(table.n_storages, np.int64), target.costs.queue_depth, target.board.flash_bytes_per_cycle,
        TILE_STREAM_BYTES, DESCRIPTOR_BYTES, ends, positions, ended,
    )  # fmt: skip
    expected = int(ends.max(initial=0))
    if target.board.sram_shared_port:  # loads take the port from the units
        loaded = int(loads[:, kernel.BYTES].sum()) // target.board.sram_read_bytes_per_cycle
        expected += loaded * min(table.port_words, expected) // max(expected, 1)
    return Course(expected, positions.tolist(), earliest, ended.tolist())


def _loads(uses: Sequence[ParameterUse]) -> Array:
    return np.array([(use.first, use.buffer.n_bytes) for use in uses], np.int64).reshape(-1, 2)
