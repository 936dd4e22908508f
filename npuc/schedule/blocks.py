"""Block shapes of the MAC array: the one of least cycles by the formulas of isa.timing, for each distinct tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from isa.descriptors import Memory, address
from isa.instructions import BY_MNEMONIC
from isa.target import Target
from isa.timing import Work, block_fits, work_of
from npuc.errors import DoesNotFit
from npuc.graph.types import Array
from npuc.lower.kernel import Kernel
from npuc.task.fields import fill_fields, layer_fields, region_fields
from npuc.task.task import Compute

SRAM = address(Memory.SRAM, 0)
FLASH = address(Memory.FLASH, 0)

Block = tuple[int, int, int]

BLOCK_CHANNELS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128, 256)
"""Output channels of a block that are tried, in units of 8."""


def work_columns(kernel: Kernel, tasks: list[Compute], parameters: int = SRAM) -> dict[str, Array]:
    """Columns for `isa.timing.work_of`, one row a task: storages at the start of SRAM, parameters at that address."""
    rows = []
    for task in tasks:
        if kernel.mnemonic == "dma.fill":
            rows.append(fill_fields(kernel.ofm, task) | {"destination": SRAM})
            continue
        values = layer_fields(kernel, lambda _: SRAM, {}, parameters, task.block) | region_fields(task)
        values["weights"] = parameters
        if kernel.is_mac:
            values["coded_words"] = _coded_words(kernel, len(task.c))
        rows.append(values)
    columns = {name: np.array([row[name] for row in rows], np.int64) for name in rows[0]}
    columns["opcode"] = np.full(len(tasks), BY_MNEMONIC[kernel.mnemonic].opcode, np.int64)
    return columns


def _coded_words(kernel: Kernel, n_channels: int) -> int:
    """Words of a tile's coded weights, estimated from those of the whole layer; 0 when they are raw."""
    stored = kernel.parameters
    if not stored.code_table:
        return 0
    return max(-(-len(stored.weights) * n_channels // (kernel.space[3] * 8)), 1)


def busy_cycles(work: Work, target: Target) -> Array:
    """Cycles [n] of each row alone on the machine: the longest of its resources, plus what is exposed."""
    board = target.board
    read = -(-work.read_words * 8 // board.sram_read_bytes_per_cycle)
    write = -(-work.write_words * 8 // max(board.sram_write_bytes_per_cycle, 1))
    ports = read + write if board.sram_shared_port else np.maximum(read, write)
    first = -(-work.first_read_words * 8 // board.sram_read_bytes_per_cycle)
    flash = -(-work.flash_bytes // board.flash_bytes_per_cycle)
    paced = work.pace + work.last_compute
    cycles: Array = np.maximum.reduce([work.compute, work.output, ports, flash, paced]) + first + work.lead_cycles
    return cycles


def choose_block(kernel: Kernel, task: Compute, target: Target, *, streamed: bool = False) -> tuple[Block, int]:
    """Best block of one task and its cycles; `streamed`: its parameters are read from flash."""
    tasks = [replace(task, block=block) for block in _candidates(kernel, task, target)]
    columns = work_columns(kernel, tasks, FLASH if streamed else SRAM)
    if kernel.is_mac:
        fits = np.flatnonzero(block_fits(columns, target))
        if not len(fits):
            raise DoesNotFit(
                f"no block of {kernel.node} fits the buffers of {target.name}",
                node=kernel.node,
                stage="schedule",
                hint="reduce the kernel width or dilation, or choose a larger target",
            )
        tasks = [tasks[i] for i in fits]
        columns = {name: column[fits] for name, column in columns.items()}
    cycles = busy_cycles(work_of(columns, target), target)
    best = int(np.argmin(cycles))
    return tasks[best].block, int(cycles[best])


def _candidates(kernel: Kernel, task: Compute, target: Target) -> Iterator[Block]:
    height, width, channels = len(task.y), len(task.x), -(-len(task.c) // 8) * 8
    if not kernel.is_mac:  # the vector unit has no line buffers: windows share reads along a row only
        yield 1, min(width, 256), min(channels, 2048)
        return
    values = target.costs.accumulator_bytes // 2 // 4
    for c in sorted({min(channels, 8 * i) for i in BLOCK_CHANNELS} | {channels}):
        if c > 2048:
            continue
        pixels = max(values // c, 1)
        for w in sorted({min(width, limit) for limit in (width, 64, 32, 16, 8, 4, 2, 1)}):
            if w > min(pixels, 256):
                continue
            tallest = min(height, pixels // w, 256)
            for h in sorted({tallest, max(tallest // 2, 1), max(tallest // 4, 1), max(tallest // 8, 1), 1}):
                yield h, w, c
