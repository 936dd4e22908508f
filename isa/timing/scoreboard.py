"""From work and wait conditions to start and end times: the pure event scoreboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import cast

import numpy as np

from isa.errors import IsaError
from isa.instructions import BY_OPCODE, NO_CONDITION, Queue
from isa.target import Target
from isa.timing import engine
from isa.timing.compiled import IS_COMPILED
from isa.timing.geometry import WORD_BYTES, Ints, ceil_div
from isa.timing.work import Work, queue_of

TICKS = 1024
"""Ticks of a cycle."""


class TickClass(IntEnum):
    """What a tick of a queue was spent on; CONDITION_q waits for queue q to retire enough instructions."""

    BUSY = 0
    FETCH = 1
    LATENCY = 2
    SRAM_PORT = 3
    FLASH = 4
    DRAM = 5
    OUTPUT_STAGE = 6
    CONDITION_DMA_IN = 7
    CONDITION_DMA_OUT = 8
    CONDITION_MAC = 9
    CONDITION_VEC = 10
    CONDITION_ARM = 11


class Resource(IntEnum):
    """Resources that units share; a shared SRAM port counts as SRAM_READ."""

    SRAM_READ = engine.READ
    SRAM_WRITE = engine.WRITE
    FLASH = engine.FLASH
    DRAM = engine.DRAM


@dataclass(frozen=True)
class Schedule:
    """Queue of each instruction [n] and up to six conditions of each [n, 6]: queue (7: none) and count.

    Rows of `Queue.ARM` are calls of the Arm core, in order; the fetcher does not see them.
    """

    queue: Ints
    wait_queue: Ints
    wait_count: Ints

    def with_arm(self, wait_queue: Ints, wait_count: Ints) -> Schedule:
        """This schedule followed by calls on the Arm core with their conditions [m, up to 6]."""
        missing = ((0, 0), (0, engine.CONDITIONS - wait_queue.shape[1]))
        return Schedule(
            np.concatenate([self.queue, np.full(len(wait_queue), Queue.ARM, np.int64)]),
            np.concatenate([self.wait_queue, np.pad(wait_queue, missing, constant_values=NO_CONDITION)]),
            np.concatenate([self.wait_count, np.pad(wait_count, missing)]),
        )


@dataclass(frozen=True)
class Blocked:
    """The head of a queue, or of the fetcher, that cannot start: instruction index, condition that does not hold."""

    queue: Queue
    instruction: int
    wait_queue: Queue
    wait_count: int
    retired: int
    """What the counter of `wait_queue` stands at, modulo 2^16."""


@dataclass(frozen=True)
class Deadlock:
    """Why nothing can happen any more: the blocked heads, and where the fetcher waits for room in a full queue."""

    heads: tuple[Blocked, ...]
    fetcher: tuple[int, Queue] | None
    """Instruction that the fetcher cannot hand over, and its full queue."""

    def __str__(self) -> str:
        parts = [
            f"instruction {b.instruction} heads queue {b.queue.name} and waits for {b.wait_queue.name} to retire "
            f"{b.wait_count} (retired {b.retired})"
            for b in self.heads
        ]
        if self.fetcher:
            parts.append(f"the fetcher holds instruction {self.fetcher[0]}, queue {self.fetcher[1].name} is full")
        return "; ".join(parts)


@dataclass(frozen=True)
class Timeline:
    """Times in ticks of 1/1024 cycle; -1 where a deadlock kept an instruction from getting there."""

    start: Ints
    issue_end: Ints
    """When the last block is issued: the next instruction of the queue may start."""
    retire: Ints
    charged: Ints
    """[n, TickClass] ticks of the instruction's queue. A queue's charges follow each other from 0 to its last
    retirement without gaps, so that they sum to the time of that retirement."""
    resource_busy: dict[Resource, int]
    """Ticks during which somebody used the resource."""
    total_ticks: int
    deadlock: Deadlock | None

    @property
    def total_cycles(self) -> int:
        """Cycles until every queue has drained, rounded up."""
        return -(-self.total_ticks // TICKS)

    @property
    def stall(self) -> Ints:
        """The class other than BUSY that cost each instruction most [n]; BUSY where none cost anything."""
        stalls = self.charged[:, TickClass.FETCH :]
        return np.where(stalls.any(axis=1), stalls.argmax(axis=1) + TickClass.FETCH, TickClass.BUSY)

    def queue_ticks(self, schedule: Schedule) -> Ints:
        """Ticks [queue, class] of the five queues; what is missing to `total_ticks` is idle time after the last one."""
        result = np.zeros((engine.QUEUES, engine.CLASSES), np.int64)
        on_queue = schedule.queue < engine.QUEUES
        np.add.at(result, schedule.queue[on_queue], self.charged[on_queue])
        return result


def schedule_of(columns: Mapping[str, Ints]) -> Schedule:
    """Queues and conditions from decoded columns: `opcode`, `wait<i>_queue`, `wait<i>_count`, and for the wait
    instructions `more<i>_queue`, `more<i>_count`; a missing column means no condition."""
    opcode = np.asarray(columns["opcode"], np.int64)
    waits = [spec.opcode for spec in BY_OPCODE.values() if spec.mnemonic.startswith("wait.")]
    queue = np.full((len(opcode), engine.CONDITIONS), NO_CONDITION, np.int64)
    count = np.zeros_like(queue)
    half = engine.CONDITIONS // 2
    for i in range(half):
        for column, prefix, applies in ((i, "wait", opcode >= 0), (half + i, "more", np.isin(opcode, waits))):
            if f"{prefix}{i}_queue" in columns:
                queue[:, column] = np.where(applies, columns[f"{prefix}{i}_queue"], NO_CONDITION)
                count[:, column] = columns[f"{prefix}{i}_count"]
    return Schedule(queue_of(opcode), queue, count)


def simulate(work: Work, schedule: Schedule, target: Target) -> Timeline:
    """Run the instructions of `schedule` with the amounts of `work` on the queues, ports and memories of `target`."""
    rows, order, state = _rows(work, schedule, target), _order(schedule), _state(schedule, target)
    times = np.zeros((len(work), engine.TIME), np.int64)
    times[:, : engine.CHARGED] = -1
    _run(rows, order, state, times)
    is_complete = bool((times[:, engine.RETIRE] >= 0).all())
    return Timeline(
        times[:, engine.START],
        times[:, engine.ISSUE_END],
        times[:, engine.RETIRE],
        times[:, engine.CHARGED :],
        {resource: int(state[engine.RESOURCE_BUSY + resource]) for resource in Resource},
        int(state[engine.NOW]),
        None if is_complete else _deadlock(rows, order, state),
    )


def _run(rows: Ints, order: Ints, state: Ints, times: Ints) -> None:
    if IS_COMPILED:
        engine.run(rows, order, state, times)
        return
    # Elements of a memoryview are Python's own integers, several times faster than numpy's scalars.
    views = [cast(Ints, array.data) for array in (rows, order, state, times)]
    engine.run(views[0], views[1], views[2], views[3])


def _rows(work: Work, schedule: Schedule, target: Target) -> Ints:
    flash_rate = target.board.flash_bytes_per_cycle
    rows = np.zeros((len(work), engine.ROW), np.int64)
    rows[:, engine.QUEUE] = schedule.queue
    rows[:, engine.LEAD] = work.lead_cycles * TICKS
    rows[:, engine.DRAIN] = work.drain_cycles * TICKS
    rows[:, engine.STREAM_END] = _ticks(np.cumsum(work.stream_bytes), flash_rate)
    rows[:, engine.DESCRIPTOR] = _ticks(work.descriptor_bytes, flash_rate)
    amounts = _amounts(work, target)
    rows[:, engine.PACE_CLASS] = _pace_class(amounts[:, engine.BODY])
    rows[:, engine.AMOUNTS : engine.WAIT_QUEUE] = amounts.reshape(len(work), engine.PHASES * engine.RESOURCES)
    rows[:, engine.WAIT_QUEUE : engine.WAIT_COUNT] = schedule.wait_queue
    rows[:, engine.WAIT_COUNT : engine.STRAIN] = schedule.wait_count
    for resource, strain, full_strain in (
        (Resource.SRAM_READ, work.strain_read, work.full_strain_read),
        (Resource.SRAM_WRITE, work.strain_write, work.full_strain_write),
        (Resource.FLASH, work.strain_flash, work.full_strain_flash),
        (Resource.DRAM, work.strain_dram, work.full_strain_dram),
    ):
        rows[:, engine.STRAIN + resource] = strain
        rows[:, engine.FULL_STRAIN + resource] = full_strain
    return rows


def _order(schedule: Schedule) -> Ints:
    """Instructions queue by queue, then those that the fetcher reads."""
    by_queue = [np.flatnonzero(schedule.queue == q) for q in range(engine.QUEUES)]
    return np.concatenate([*by_queue, np.flatnonzero(schedule.queue != Queue.ARM)]).astype(np.int64)


def _state(schedule: Schedule, target: Target) -> Ints:
    costs, board = target.costs, target.board
    state = np.zeros(engine.STATE, np.int64)
    state[engine.TIMER] = board.flash_latency_cycles * TICKS
    state[engine.DEPTH] = costs.queue_depth
    state[engine.PREFETCH] = _ticks(np.array([costs.prefetch_bytes]), board.flash_bytes_per_cycle)[0]
    state[engine.DISPATCH] = costs.dispatch_cycles * TICKS
    state[engine.FLASH_LATENCY] = board.flash_latency_cycles * TICKS
    lengths = np.bincount(schedule.queue, minlength=engine.QUEUES + 1)[: engine.QUEUES]
    state[engine.FIRST + 1 : engine.FIRST + 1 + engine.QUEUES] = np.cumsum(lengths)
    if (schedule.queue == Queue.ARM).all():
        state[engine.MODE] = engine.DONE
    for column in (engine.FRONT, engine.BACK):
        state[column : column + engine.QUEUES] = -1
    state[engine.PUSHED + Queue.ARM] = lengths[Queue.ARM]
    return state


def _amounts(work: Work, target: Target) -> Ints:
    """Ticks [n, phase, resource] at the full rate of each resource."""
    n, board = len(work), target.board
    zero = np.zeros(n, np.int64)
    totals = [work.compute, work.output, work.read_words, work.write_words, work.flash_bytes, work.dram_bytes]
    firsts = [zero, zero, work.first_read_words, zero, work.first_flash_bytes, work.first_dram_bytes]
    lasts = [work.last_compute, work.last_output, zero, work.last_write_words, zero, work.last_dram_bytes]
    bodies = [total - first - last for total, first, last in zip(totals, firsts, lasts, strict=True)]
    result = np.zeros((n, engine.PHASES, engine.RESOURCES), np.int64)
    for phase, columns in ((engine.LOAD, firsts), (engine.BODY, bodies), (engine.LAST, lasts)):
        compute, output, read, write, flash, dram = columns
        if board.sram_shared_port:
            read, write = read + write, zero
        result[:, phase, engine.COMPUTE] = compute * TICKS
        result[:, phase, engine.OUTPUT] = output * TICKS
        result[:, phase, engine.READ] = _ticks(read * WORD_BYTES, board.sram_read_bytes_per_cycle)
        result[:, phase, engine.WRITE] = _ticks(write * WORD_BYTES, board.sram_write_bytes_per_cycle)
        result[:, phase, engine.FLASH] = _ticks(flash, board.flash_bytes_per_cycle)
        result[:, phase, engine.DRAM] = _ticks(dram, board.dram_bytes_per_cycle)
    result[:, engine.BODY, engine.PACE] = work.pace * TICKS
    return result


def _pace_class(body: Ints) -> Ints:
    """What a body waits for when only its pace is left [n]: its busiest resource but the datapath."""
    classes = (
        (engine.OUTPUT, TickClass.OUTPUT_STAGE), (engine.READ, TickClass.SRAM_PORT),
        (engine.WRITE, TickClass.SRAM_PORT), (engine.FLASH, TickClass.FLASH), (engine.DRAM, TickClass.DRAM),
    )  # fmt: skip
    busiest = body[:, [resource for resource, _ in classes]].argmax(axis=1)
    return np.asarray(np.array([int(kind) for _, kind in classes], np.int64)[busiest])


def _ticks(amount_bytes: Ints, bytes_per_cycle: int) -> Ints:
    if bytes_per_cycle == 0:
        if amount_bytes.any():
            raise IsaError(f"instruction {int(amount_bytes.argmax())} uses a memory that the target does not have")
        return amount_bytes
    return ceil_div(amount_bytes * TICKS, bytes_per_cycle)


def _deadlock(rows: Ints, order: Ints, state: Ints) -> Deadlock:
    heads = []
    for q in range(engine.QUEUES):
        if state[engine.STARTED + q] < state[engine.PUSHED + q]:
            i = int(order[state[engine.FIRST + q] + state[engine.STARTED + q]])
            heads.append(_blocked(rows, state, i))
    position = int(state[engine.FIRST + engine.FETCH_QUEUE] + state[engine.POSITION])
    if position == len(order):
        return Deadlock(tuple(heads), None)
    held = int(order[position])
    if rows[held, engine.QUEUE] == Queue.FETCH:
        return Deadlock((*heads, _blocked(rows, state, held)), None)
    return Deadlock(tuple(heads), (held, Queue(int(rows[held, engine.QUEUE]))))


def _blocked(rows: Ints, state: Ints, i: int) -> Blocked:
    j = engine.unmet(rows, state, i)
    waited = Queue(int(rows[i, engine.WAIT_QUEUE + j]))
    retired = int(state[engine.RETIRED + waited]) & 0xFFFF
    return Blocked(Queue(int(rows[i, engine.QUEUE])), i, waited, int(rows[i, engine.WAIT_COUNT + j]), retired)
