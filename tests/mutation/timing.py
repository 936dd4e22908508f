"""Legal timings of a program: when each instruction starts, has issued its last block, and has retired.

Times are numbers without a unit. Every start lies behind the retirements that its conditions count and behind the last
block of its predecessor; every retirement behind that of the predecessor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from isa.arm_calls import ArmCall
from isa.codec import Instruction
from isa.instructions import Queue

Times = npt.NDArray[np.float64]

COUNTED = (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC, Queue.ARM)
PROMPT = 0.01
"""Largest delay between two events that follow each other at once."""


@dataclass(frozen=True)
class Program:
    """What a timing depends on: queue, conditions and predecessors; programs of less than 2^15 instructions.

    Rows are instructions and Arm calls in an order in which each waits for earlier ones only.
    """

    queue: tuple[Queue, ...]
    waits: tuple[tuple[int, ...], ...]
    """Indices of the rows whose retirement each one waits for."""
    before: tuple[int, ...]
    """Predecessor in the queue; -1: none."""
    oldest: tuple[int, ...]
    """The instruction whose place in the full queue each one takes; -1: none."""


def timed(rows: Sequence[Instruction | ArmCall], depth: int) -> Program:
    """The program with counts resolved to rows; each must wait for earlier ones only. Calls run one by one."""
    lines: dict[Queue, list[int]] = {queue: [] for queue in Queue}
    queues, waits, before, oldest = [], [], [], []
    for index, row in enumerate(rows):
        is_call = isinstance(row, ArmCall)
        queue, conditions = (Queue.ARM, row.conditions) if isinstance(row, ArmCall) else _of(row)
        line = lines[queue]
        queues.append(queue)
        awaited = [lines[other][count - 1] for other, count in conditions if count]
        waits.append(tuple(awaited + line[-1:] if is_call else awaited))
        before.append(line[-1] if line else -1)
        oldest.append(line[-depth] if len(line) >= depth and not is_call else -1)
        line.append(index)
    return Program(tuple(queues), tuple(waits), tuple(before), tuple(oldest))


def _of(instruction: Instruction) -> tuple[Queue, tuple[tuple[Queue, int], ...]]:
    return instruction.spec.queue, instruction.conditions()


@dataclass(frozen=True)
class Timing:
    """Columns over the instructions; `settled`: retirement of the predecessor, before which nothing is written.

    `read` and `write` give the moments of n reads and writes as fractions of the time they may take.
    """

    start: Times
    issued: Times
    settled: Times
    retired: Times
    read: Callable[[int], Times]
    write: Callable[[int], Times]


def random_timing(program: Program, seed: int) -> Timing:
    """Random speeds of queues, durations and latencies; reads and writes spread with a random bias.

    Every second seed holds the place in the queue until the instruction has retired, the others until it has started.
    """
    rng = np.random.default_rng(seed)
    n = len(program.queue)
    speed = 10 ** rng.uniform(-2, 2, len(Queue))[[int(queue) for queue in program.queue]]
    duration = rng.lognormal(0, 1.5, n) * speed
    latency = PROMPT + rng.lognormal(0, 1.5, n) * speed * rng.choice([0.1, 1, 10])
    delay = PROMPT + rng.lognormal(-1, 1.5, n) * speed * rng.choice([0, 1])
    start, issued, settled, retired = np.zeros((4, n))
    dispatched = 0.0
    for i in range(n):
        ready = max([0.0, *(retired[j] for j in program.waits[i])])
        oldest, before = program.oldest[i], program.before[i]
        if oldest >= 0:
            dispatched = max(dispatched, float((retired if seed % 2 else start)[oldest]))
        if program.queue[i] is Queue.FETCH:
            dispatched = max(dispatched, ready)
        fetched = 0.0 if program.queue[i] is Queue.ARM else dispatched
        start[i] = max(ready, fetched, issued[before] if before >= 0 else 0.0) + delay[i]
        issued[i] = start[i] + duration[i]
        settled[i] = retired[before] if before >= 0 else 0.0
        retired[i] = max(issued[i], settled[i]) + latency[i]
    early_read, early_write = rng.choice([0.2, 1, 5], 2)
    return Timing(
        start, issued, settled, retired, lambda k: rng.random(k) ** early_read, lambda k: rng.random(k) ** early_write
    )


def adversarial_timing(program: Program, *, late: bool) -> Timing:
    """Of all instructions that may start, always the last in program order.

    Early: it runs to its end at once, so that it overtakes all that nothing orders before it. Late: it reads at once
    and retires when nothing else can happen, so that whatever nothing orders behind it does not see what it wrote.
    """
    run = _Greedy(program, late)
    while run.step():
        pass
    start, retired = np.array(run.start), np.array(run.retired)
    settled = np.array([retired[before] if before >= 0 else 0.0 for before in program.before])
    return Timing(start, start, settled, retired, np.zeros, np.ones)


@dataclass
class _Greedy:
    program: Program
    late: bool
    start: list[float] = field(default_factory=list)
    retired: list[float] = field(default_factory=list)
    _fetched: int = 0
    _clock: float = 1.0

    def __post_init__(self) -> None:
        n = len(self.program.queue)
        self.start, self.retired = [0.0] * n, [0.0] * n
        self._queued: dict[Queue, list[int]] = {unit: [] for unit in COUNTED}
        self._running: dict[Queue, list[int]] = {unit: [] for unit in COUNTED}
        self._queued[Queue.ARM] += [i for i, queue in enumerate(self.program.queue) if queue is Queue.ARM]

    def step(self) -> bool:
        """Let one thing happen; whether there was any."""
        while self._fetch():
            pass
        ready = [line[0] for line in self._queued.values() if line and self._holds(line[0])]
        if ready:
            self._begin(max(ready))
            return True
        heads = [line[0] for line in self._running.values() if line]
        if heads:
            self._retire(max(heads))
        return bool(heads)

    def _fetch(self) -> bool:
        index = self._fetched
        if index == len(self.program.queue):
            return False
        queue, oldest = self.program.queue[index], self.program.oldest[index]
        if queue is Queue.ARM:
            moves = True
        elif queue is Queue.FETCH:
            moves = self._holds(index)
            if moves:
                self.start[index] = self.retired[index] = self._tick()
        else:
            moves = oldest < 0 or self.start[oldest] > 0
            if moves:
                self._queued[queue].append(index)
        self._fetched += moves
        return moves

    def _begin(self, index: int) -> None:
        queue = self.program.queue[index]
        self._running[queue].append(self._queued[queue].pop(0))
        self.start[index] = self._tick()
        if not self.late:
            self._retire(index)

    def _retire(self, index: int) -> None:
        self._running[self.program.queue[index]].pop(0)
        self.retired[index] = self._tick()

    def _tick(self) -> float:
        self._clock += 1
        return self._clock

    def _holds(self, index: int) -> bool:
        return all(self.retired[other] > 0 for other in self.program.waits[index])
