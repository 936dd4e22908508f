"""Which bytes of which buffers a task reads and writes: whole rows, so never too few."""

from __future__ import annotations

from npuc.arm.node import Stored, merge_runs, runs
from npuc.errors import InvalidGraph
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.lower.operand import Operand
from npuc.task.task import Call, Compute, Load, Plan, Task, weight_bytes

Interval = tuple[str, int, int]
"""Buffer name, first byte and end, relative to the buffer."""


def accesses(plan: Plan, task: Task) -> tuple[list[Interval], list[Interval]]:
    """Intervals read and written by `task`; flash is not listed, it never changes."""
    if isinstance(task, Load):
        return [], [(task.buffer, task.start, task.stop)]
    kernel = plan.kernels[task.kernel]
    if isinstance(task, Call):
        return _arm(kernel)
    reads = _parameters(plan, kernel, task)
    if kernel.ifm is not None:
        reads += _operand(plan, kernel, kernel.ifm, task, kernel.input_rows(task.y), _input_channels(kernel, task))
    if kernel.ifm2 is not None:
        reads += _operand(plan, kernel, kernel.ifm2, task, task.y, task.c)
    return reads, _operand(plan, kernel, kernel.ofm, task, task.y, task.c)


def _arm(kernel: Kernel) -> tuple[list[Interval], list[Interval]]:
    """All operands of the node, for each of its calls."""
    node = kernel.arm
    if node is None:
        raise InvalidGraph(f"{kernel.node} is no kernel of the Arm core", node=kernel.node, stage="schedule")
    reads = [_extent(item) for item in node.inputs if isinstance(item, Stored)]
    writes = [_extent(node.output)]
    if node.scratch:
        writes.append((node.scratch, 0, node.scratch_bytes))
    return reads, writes


def _extent(item: Stored) -> Interval:
    parts = merge_runs(runs(item.view))
    return item.storage, parts[0][0], sum(parts[-1])


def _input_channels(kernel: Kernel, task: Compute) -> range:
    if kernel.mnemonic == "mac.conv":
        return task.k
    if kernel.fixed_channels and kernel.ifm is not None:
        return range(kernel.ifm.shape[3])
    return task.c


def _operand(plan: Plan, kernel: Kernel, operand: Operand, task: Compute, y: range, c: range) -> list[Interval]:
    if operand.storage == PARAMETERS:
        if kernel.owner in plan.streamed:
            return []
        start = kernel.parameters.operand_offset
        name, offset = plan.locate(kernel.owner, start, start + len(kernel.parameters.operand))
        return [(name, offset, offset + len(kernel.parameters.operand))]
    rows = y if kernel.spatial or operand.shape[1] == kernel.space[1] else range(operand.shape[1])
    if operand.row == 0:
        rows = range(1)
    ring = plan.buffer[operand.storage].ring_rows
    return [(operand.storage, low, high) for low, high in operand.span(task.n, rows, c, ring)]


def _parameters(plan: Plan, kernel: Kernel, task: Compute) -> list[Interval]:
    found: list[Interval] = []
    if kernel.owner in plan.streamed:
        return found
    if kernel.parameters.head_bytes:
        name, offset = plan.locate(kernel.owner, 0, kernel.parameters.head_bytes)
        found.append((name, offset, offset + kernel.parameters.head_bytes))
    if kernel.parameters.weights:
        start, stop = weight_bytes(kernel, task)
        name, offset = plan.locate(kernel.owner, start, stop)
        found.append((name, offset, offset + stop - start))
    return found
