"""The rows of one unit while a plan is built: steps, jobs of each stream, output blocks."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from isa.descriptors import Memory
from tests.stepped.model_access import WORD
from tests.stepped.model_plan import (
    DRAM,
    FLASH,
    INPUT,
    READ_PORT,
    RESOURCES,
    SECOND,
    STREAMS,
    WRITE_PORT,
    Columns,
    Ints,
)

STEPS = (
    "step_instruction",
    "step_cycles",
    "step_elements",
    "step_writes",
    "step_after_block",
    "step_input",
    "step_second",
)
JOBS = (
    "job_instruction",
    "job_amount",
    "job_order",
    "job_after_step",
    "job_after_block",
    "job_after_input",
    "job_after_second",
)
BLOCKS = ("block_elements", "block_writes", "block_instruction", *(f"block_jobs{i}" for i in range(STREAMS)))

MAX_SUBSTEPS = 4096
"""Steps into which a stretch of streaming work is cut at most."""

READ_AHEAD_STEPS = 256
"""Steps whose words a streaming unit asks for before it uses them."""


@dataclass
class UnitRows:
    """Everything one unit does, in order."""

    shared_port: bool
    steps: Columns = field(default_factory=lambda: Columns(*STEPS))
    jobs: list[Columns] = field(default_factory=lambda: [Columns(*JOBS) for _ in range(STREAMS)])
    blocks: Columns = field(default_factory=lambda: Columns(*BLOCKS))
    written: list[int] = field(default_factory=lambda: [0] * RESOURCES)
    loads: int = 0
    """Loads of the MAC array so far: their order."""
    chunk_step: int = 0
    """Steps that have begun when the newest chunk of input has."""
    weight_step: int = 0
    """The same for the newest half of the weight buffer, and for the one before it."""
    weight_gate: int = 0
    issued: int = 0
    """Steps that are done when the newest instruction has issued its last block."""
    tables: int = 0
    """Jobs of SECOND, up to the newest table of a vector instruction: input behind them waits for it."""

    def reads(self, memory: Memory) -> int:
        """The resource that reads of this memory use."""
        return {Memory.SRAM: READ_PORT, Memory.FLASH: FLASH, Memory.DRAM: DRAM}[memory]

    def writes(self, memory: Memory) -> int:
        """The resource that writes to this memory use."""
        if memory is Memory.SRAM:
            return READ_PORT if self.shared_port else WRITE_PORT
        return DRAM

    def job(self, stream: int, instruction: int, amount: int, **after: int) -> None:
        """One load, if it loads anything, behind all those before it."""
        if amount:
            self.jobs[stream].extend(1, job_instruction=instruction, job_amount=amount, job_order=self.loads, **after)
            self.loads += 1

    def stream(self, instruction: int, reads: tuple[int, int], cycles: int, writes: int, resource: int) -> None:
        """Amounts that flow side by side, cut into steps of about a cycle; `reads` of INPUT and SECOND."""
        n = min(max(*reads, cycles, writes, 1), MAX_SUBSTEPS)
        first = self.steps.n
        needs = []
        for stream, total in zip((INPUT, SECOND), reads, strict=True):
            share = _early(total, n)
            rows = np.flatnonzero(share)
            before = self.jobs[stream].n
            self.jobs[stream].extend(
                len(rows),
                job_instruction=instruction,
                job_amount=share[rows],
                job_order=first + rows,
                job_after_step=np.maximum(first + rows - READ_AHEAD_STEPS, 0),
                job_after_second=self.tables,
            )
            needs.append(before + np.cumsum(share > 0))
        self.steps.extend(
            n,
            step_instruction=instruction,
            step_cycles=_late(cycles, n),
            step_writes=_late(writes, n),
            step_input=needs[0],
            step_second=needs[1],
        )
        self.written[resource] += writes

    def copy(self, instruction: int, reads: Ints, writes: Ints, needs: Ints, resource: int) -> None:
        """A copy, in cycles of its own: a word of the source each, `reads` (amounts); the words of the destination,
        `writes`, one after the other, each when the first `needs` of the source have come."""
        order = np.arange(1, len(writes) + 1)
        ends = order + np.maximum(np.maximum.accumulate(needs - order), 0)
        n, first, before = int(ends[-1]), self.steps.n, self.jobs[INPUT].n
        self.jobs[INPUT].extend(
            len(reads),
            job_instruction=instruction,
            job_amount=reads,
            job_order=first + np.arange(len(reads)),
            job_after_step=np.maximum(first + np.arange(len(reads)) - READ_AHEAD_STEPS, 0),
            job_after_second=self.tables,
        )
        written, needed = np.zeros(n, np.int64), np.zeros(n, np.int64)
        written[ends - 1], needed[ends - 1] = writes, needs
        self.steps.extend(
            n,
            step_instruction=instruction,
            step_cycles=1,
            step_writes=written,
            step_input=before + np.maximum.accumulate(needed),
            step_second=self.jobs[SECOND].n,
        )
        self.written[resource] += int(writes.sum())


def amount(memory: Memory, words: int, length_bytes: int | None = None) -> int:
    """Words of a port, or bytes of a memory: those given, else whole words."""
    if memory is Memory.SRAM:
        return words
    return words * WORD if length_bytes is None else length_bytes


def _early(total: int, n: int) -> Ints:
    """`total` spread over n steps as evenly as integers allow, each part as early as it may be."""
    return np.diff(-(-np.arange(n + 1, dtype=np.int64) * total // n))


def _late(total: int, n: int) -> Ints:
    """The same, each part when all of what it is made from has come."""
    return np.diff(np.arange(n + 1, dtype=np.int64) * total // n)
