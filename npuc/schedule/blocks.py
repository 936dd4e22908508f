"""Block shapes of the MAC array for each distinct tile, by the formulas of isa.timing: the one of least cycles alone on
the machine, and the one of least cycles when loads run beside it half of the time.

Loads take a part of the port of SRAM. A block whose words just pass beside its computation no longer hides them then,
and another one that reads its input less often is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from isa.descriptors import Memory, address
from isa.instructions import BY_MNEMONIC
from isa.target import Target
from isa.timing import Work, block_fits, bound_cycles, least_work_of, work_of
from npuc.errors import DoesNotFit
from npuc.graph.types import Array
from npuc.lower.kernel import Kernel
from npuc.task.fields import fill_fields, layer_fields, region_fields
from npuc.task.task import Compute

SRAM = address(Memory.SRAM, 0)
FLASH = address(Memory.FLASH, 0)
WHOLE = 1024

Block = tuple[int, int, int]

BATCH = 256
"""Tasks priced in one call; bounds the memory that this takes."""

BLOCK_CHANNELS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128, 256)
"""Output channels of a block that are tried, in units of 8."""


@dataclass(frozen=True)
class Request:
    """A task whose block is to be chosen; `streamed`: its parameters are read from flash."""

    kernel: Kernel
    task: Compute
    streamed: bool = False


def work_columns(kernel: Kernel, tasks: list[Compute], parameters: int = SRAM) -> dict[str, Array]:
    """Columns for `isa.timing.work_of`, one row a task: storages at the start of SRAM, parameters at that address."""
    return request_columns([Request(kernel, task, streamed=parameters == FLASH) for task in tasks])


def request_columns(requests: Sequence[Request]) -> dict[str, Array]:
    """Columns for `isa.timing.work_of`, one row a request: storages at the start of SRAM."""
    rows = [_work_row(request) for request in requests]
    columns = {name: np.array([row.get(name, 0) for row in rows], np.int64) for name in dict.fromkeys(chain(*rows))}
    columns["opcode"] = np.array([BY_MNEMONIC[request.kernel.mnemonic].opcode for request in requests], np.int64)
    return columns


def _work_row(request: Request) -> dict[str, int]:
    kernel, task = request.kernel, request.task
    if kernel.mnemonic == "dma.fill":
        return fill_fields(kernel.ofm, task) | {"destination": SRAM}
    parameters = FLASH if request.streamed else SRAM
    values = layer_fields(kernel, lambda _: SRAM, {}, parameters, task.block) | region_fields(task)
    values["weights"] = SRAM if kernel.computed_weights else parameters
    if kernel.is_mac:
        values["coded_words"] = _coded_words(kernel, len(task.c))
    return values


def _coded_words(kernel: Kernel, n_channels: int) -> int:
    """Words of a tile's coded weights, estimated from those of the whole layer; 0 when they are raw."""
    stored = kernel.parameters
    if not stored.code_table:
        return 0
    return max(-(-len(stored.weights) * n_channels // (kernel.space[3] * 8)), 1)


def busy_cycles(work: Work, target: Target, loads: int = 0) -> Array:
    """Cycles [n] of each row: the longest of its resources, plus what is exposed.

    `loads` is the part of the port (of several, that for writes) that loads take beside it, in 1/1024; then they take
    half of the flash, too.
    """
    board, left = target.board, WHOLE - loads
    read_left, write_left = (left, left) if board.sram_shared_port else (WHOLE, left)
    read = -(-work.read_words * 8 * WHOLE // (board.sram_read_bytes_per_cycle * read_left))
    write = -(-work.write_words * 8 * WHOLE // (max(board.sram_write_bytes_per_cycle, 1) * write_left))
    ports = read + write if board.sram_shared_port else np.maximum(read, write)
    first = -(-work.first_read_words * 8 * WHOLE // (board.sram_read_bytes_per_cycle * read_left))
    flash = -(-work.flash_bytes // board.flash_bytes_per_cycle) * (2 if loads else 1)
    strain, full = work.strain_read, work.full_strain_read
    if not board.sram_shared_port:
        strain, full = work.strain_write, work.full_strain_write
    slower = (strain + (full - strain) * loads // WHOLE) * loads // WHOLE
    paced = work.pace * WHOLE // (WHOLE - slower) + np.maximum(work.last_compute, work.last_output)
    cycles: Array = np.maximum.reduce([work.compute, work.output, ports, flash, paced]) + first + work.lead_cycles
    return cycles


def crowded_cycles(work: Work, target: Target) -> Array:
    """Twice the cycles [n] of each row when loads run beside it half of the time."""
    board = target.board
    loads = min(WHOLE * board.flash_bytes_per_cycle // max(board.sram_write_bytes_per_cycle, 1), WHOLE // 2)
    cycles: Array = busy_cycles(work, target) + busy_cycles(work, target, loads)
    return cycles


MEASURES = (busy_cycles, crowded_cycles)
"""What the block of a `Choice` has the least of, and what the other one has."""


@dataclass(frozen=True)
class Amounts:
    """What a task asks for: cycles of its busiest resource, words of the SRAM's ports, bytes of flash."""

    roof_cycles: int
    port_words: int
    flash_bytes: int


@dataclass(frozen=True)
class Choice:
    """The block shape of least cycles alone on the machine, with those cycles and its amounts; `crowded` is the one of
    least cycles when loads run beside it half of the time. No schedule takes less than `least` with either."""

    block: Block
    cycles: int
    amounts: Amounts
    crowded: Block
    least: Amounts


def busy_for(cycles: int) -> Choice:
    """What a task takes that has no blocks and asks for no memory."""
    amounts = Amounts(cycles, 0, 0)
    return Choice((1, 1, 8), cycles, amounts, (1, 1, 8), amounts)


def choose_blocks(requests: Sequence[Request], target: Target) -> list[Choice]:
    """Best block of each task; DoesNotFit names a kernel none of whose blocks fits the buffers.

    All blocks of all tasks are priced in one call, which costs little more than pricing one.
    """
    result = [busy_for(0)] * len(requests)
    is_mac = [request.kernel.is_mac for request in requests]
    for kind in (True, False):
        places = [i for i, found in enumerate(is_mac) if found is kind]
        for start in range(0, len(places), BATCH):
            part = places[start : start + BATCH]
            for i, found in zip(part, _priced([requests[i] for i in part], target), strict=True):
                result[i] = found
    return result


def _priced(requests: Sequence[Request], target: Target) -> list[Choice]:
    if not requests:
        return []
    blocks = [list(candidates(request.kernel, request.task, target)) for request in requests]
    owner = np.repeat(np.arange(len(requests)), [len(found) for found in blocks])
    shape = np.array([block for found in blocks for block in found], np.int64)
    columns = {name: column[owner] for name, column in request_columns(requests).items()}
    columns |= {"block_h": shape[:, 0], "block_w": shape[:, 1], "block_c": shape[:, 2] // 8}
    if requests[0].kernel.is_mac:
        hopeful = _hopeful(columns, owner, target)
        columns = {name: column[hopeful] for name, column in columns.items()}
        owner, shape = owner[hopeful], shape[hopeful]
    work = work_of(columns, target)
    cycles = [measure(work, target) for measure in MEASURES]
    words = work.read_words + work.write_words
    orders = [np.lexsort((np.arange(len(owner)), words, found, owner)) for found in cycles]
    first = np.searchsorted(owner[orders[0]], np.arange(len(requests) + 1))
    for i in np.flatnonzero(np.diff(first) == 0).tolist():
        raise _no_block(requests[i].kernel, target)
    alone, crowded = best = np.stack([order[first[:-1]] for order in orders])
    amounts = np.stack([bound_cycles(work, target), work.read_words + work.write_words, work.flash_bytes], axis=1)
    shapes: list[Block] = [(h, w, c) for h, w, c in shape.tolist()]
    own = cycles[0].tolist()
    return [
        Choice(shapes[i], own[i], Amounts(*amounts[i].tolist()), shapes[j], Amounts(*least.tolist()))
        for i, j, least in zip(alone.tolist(), crowded.tolist(), amounts[best].min(axis=0), strict=True)
    ]


def _hopeful(columns: Mapping[str, Array], owner: Array, target: Target) -> Array:
    """The rows of MAC blocks that fit and may be the best of their owner by one of the measures: those whose least
    cycles are not above what the most hopeful one takes, of those the largest."""
    places = np.flatnonzero(block_fits(columns, target))
    columns, owner = {name: column[places] for name, column in columns.items()}, owner[places]
    least_work = least_work_of(columns, target)
    size = columns["block_h"] * columns["block_w"] * columns["block_c"]
    hopeful = np.zeros(len(owner), np.bool_)
    for measure in MEASURES:
        least = measure(least_work, target)
        order = np.lexsort((-size, least, owner))
        owners, first = np.unique(owner[order], return_index=True)
        sample = {name: column[order[first]] for name, column in columns.items()}
        taken = measure(work_of(sample, target), target)
        hopeful |= least <= taken[np.searchsorted(owners, owner)]
    found: Array = places[hopeful]
    return found


def _no_block(kernel: Kernel, target: Target) -> DoesNotFit:
    return DoesNotFit(
        f"no block of {kernel.node} fits the buffers of {target.name}",
        node=kernel.node,
        stage="schedule",
        hint="reduce the kernel width or dilation, or choose a larger target",
    )


def candidates(kernel: Kernel, task: Compute, target: Target) -> Iterator[Block]:
    """Block shapes to choose from; not all of them fit the buffers."""
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
