"""What the stepping loop reads: steps, load jobs and output blocks of every unit, as flat integer arrays.

A *step* is what a datapath does at a time. A *job* is a load; each unit has five streams of jobs, each in order. Steps
wait for jobs of the streams INPUT and SECOND, output blocks of the MAC array for those of the other three.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

DMA_IN, DMA_OUT, MAC, VEC, FETCH = 0, 1, 2, 3, 5
UNITS = 4

INPUT, SECOND, SCALES, TABLE, RESIDUAL = range(5)
STREAMS = 5
"""SECOND is weights, or the second operand or the table of a vector instruction."""

READ_PORT, WRITE_PORT, FLASH, DRAM = range(4)
RESOURCES = 4
"""Ports count words, memories bytes. A shared port is READ_PORT."""


class Plan(NamedTuple):
    """All arrays of a program on a target; `model_builder` fills them."""

    # one entry an instruction, in program order
    queue: Ints
    offset_end: Ints
    descriptor_bytes: Ints
    """Bytes that a desc.load reads, otherwise 0."""
    condition_queue: Ints
    """[n, 6]"""
    condition_count: Ints
    lead: Ints
    drain: Ints
    write_delay: Ints
    resource: Ints
    """[n, STREAMS]"""
    write_resource: Ints
    issue_step: Ints
    """Steps of the unit that are done when the instruction has issued its last block."""
    end_step: Ints
    end_job: Ints
    """[n, STREAMS]"""
    end_block: Ints
    end_write: Ints
    """[n, RESOURCES]: amounts that the unit has written when the instruction is complete."""
    # instructions of each queue
    order: Ints
    order_base: Ints
    """[UNITS + 1]"""
    # steps, unit after unit
    step_base: Ints
    step_instruction: Ints
    step_cycles: Ints
    step_elements: Ints
    step_writes: Ints
    step_after_block: Ints
    """Output blocks that must be out: a half of the accumulators is free then, or array and stage are the
    instruction's own."""
    step_input: Ints
    """Jobs of INPUT that must be complete."""
    step_second: Ints
    # jobs, unit after unit and stream after stream
    job_base: Ints
    """[UNITS, STREAMS]"""
    job_instruction: Ints
    job_amount: Ints
    job_order: Ints
    """The step that needs it first; for the MAC array its place in the order of loads."""
    job_after_step: Ints
    """Steps of the unit that must have begun: the buffer is free then."""
    job_after_block: Ints
    job_after_input: Ints
    job_after_second: Ints
    # output blocks of the MAC array
    block_end_elements: Ints
    block_elements: Ints
    block_writes: Ints
    block_instruction: Ints
    block_jobs: Ints
    """[blocks, STREAMS]"""
    # the target
    capacity: Ints
    """[RESOURCES] words or bytes a cycle"""
    stage: Ints
    """Elements a cycle of the output stage: numerator, denominator."""
    fetch: Ints
    """Flash latency, dispatch cycles, queue depth, prefetch bytes."""


class Columns:
    """Integer columns that grow together."""

    def __init__(self, *names: str) -> None:
        self.parts: dict[str, list[Ints]] = {name: [] for name in names}
        self.n = 0

    def extend(self, n: int, **values: Ints | int) -> None:
        """n more rows; a single number stands in all of them."""
        for name, parts in self.parts.items():
            parts.append(np.broadcast_to(np.asarray(values.get(name, 0), np.int64), (n,)))
        self.n += n


def stacked(tables: list[Columns], name: str) -> Ints:
    """One column of several tables, one after the other."""
    empty: Ints = np.zeros(0, np.int64)
    return np.concatenate([empty, *(part for table in tables for part in table.parts[name])])


def bases(tables: list[Columns]) -> Ints:
    """The first row of each table in the stacked columns."""
    return np.cumsum([0] + [table.n for table in tables])[:-1].astype(np.int64)
