"""Which bytes of which buffers a task reads and writes: whole rows, so never too few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from npuc.arm.node import Stored, merge_runs, runs
from npuc.errors import InvalidGraph
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.lower.operand import Operand
from npuc.task.task import Call, Compute, Load, Plan, Task, Work, weight_bytes

Interval = tuple[str, int, int]
"""Buffer name, first byte and end, relative to the buffer."""


@dataclass(frozen=True)
class Touched:
    """What a task of a kernel touches: intervals of storages, read and written, and bytes [start, stop) of the
    kernel's parameters that it reads in SRAM."""

    reads: list[Interval]
    writes: list[Interval]
    parameters: list[tuple[int, int]]


def accesses(plan: Plan, task: Task) -> tuple[list[Interval], list[Interval]]:
    """Intervals read and written by `task`; flash is not listed, it never changes."""
    if isinstance(task, Load):
        return [], [(task.buffer, task.start, task.stop)]
    kernel = plan.kernels[task.kernel]
    storages = {item.storage for item in kernel.operands} - {PARAMETERS}
    rings = {name: plan.buffer[name].ring_rows for name in storages}
    found = touched(kernel, task, rings, is_streamed=kernel.owner in plan.streamed)
    return found.reads + [located(plan, kernel, *part) for part in found.parameters], found.writes


def located(plan: Plan, kernel: Kernel, start: int, stop: int) -> Interval:
    """Where bytes [start, stop) of a kernel's parameters lie."""
    name, offset = plan.locate(kernel.owner, start, stop)
    return name, offset, offset + stop - start


def touched(kernel: Kernel, task: Work, rings: Mapping[str, int], *, is_streamed: bool) -> Touched:
    """What a task touches; `rings` are the rows of the line buffers among its storages, `is_streamed` whether the
    parameters stay in flash."""
    if isinstance(task, Call):
        return _arm(kernel)
    reads: list[Interval] = []
    parameters = [] if is_streamed else _parameters(kernel, task)
    for operand, y, c in _inputs(kernel, task):
        if operand.storage != PARAMETERS:
            reads += _operand(kernel, operand, task, y, c, rings)
        elif not is_streamed:
            start = kernel.parameters.operand_offset
            parameters.append((start, start + len(kernel.parameters.operand)))
    return Touched(reads, _operand(kernel, kernel.ofm, task, task.y, task.c, rings), parameters)


def _inputs(kernel: Kernel, task: Compute) -> Iterator[tuple[Operand, range, range]]:
    """Operands that a task reads, each with the rows and channels."""
    if kernel.ifm is not None:
        yield kernel.ifm, kernel.input_rows(task.y), _input_channels(kernel, task)
    if kernel.ifm2 is not None:
        yield kernel.ifm2, task.y, task.c


def _arm(kernel: Kernel) -> Touched:
    """All operands of the node, for each of its calls."""
    node = kernel.arm
    if node is None:
        raise InvalidGraph(f"{kernel.node} is no kernel of the Arm core", node=kernel.node, stage="schedule")
    reads = [_extent(item) for item in node.inputs if isinstance(item, Stored)]
    writes = [_extent(node.output)]
    if node.scratch:
        writes.append((node.scratch, 0, node.scratch_bytes))
    return Touched(reads, writes, [])


def _extent(item: Stored) -> Interval:
    parts = merge_runs(runs(item.view))
    return item.storage, parts[0][0], sum(parts[-1])


def _input_channels(kernel: Kernel, task: Compute) -> range:
    if kernel.mnemonic == "mac.conv":
        return task.k
    if kernel.fixed_channels and kernel.ifm is not None:
        return range(kernel.ifm.shape[3])
    return task.c


def _operand(
    kernel: Kernel, operand: Operand, task: Compute, y: range, c: range, rings: Mapping[str, int]
) -> list[Interval]:
    rows = y if kernel.spatial or operand.shape[1] == kernel.space[1] else range(operand.shape[1])
    if operand.row == 0:
        rows = range(1)
    ring = rings.get(operand.storage, 0)
    return [(operand.storage, low, high) for low, high in operand.span(task.n, rows, c, ring)]


def _parameters(kernel: Kernel, task: Compute) -> list[tuple[int, int]]:
    head = [(0, kernel.parameters.head_bytes)] if kernel.parameters.head_bytes else []
    return [*head, weight_bytes(kernel, task)] if kernel.parameters.weights else head
