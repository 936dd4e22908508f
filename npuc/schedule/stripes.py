"""Groups of kernels that run stripe by stripe, so that what flows between them needs only a line buffer.

A group of one kernel with one stripe is layer-by-layer execution. Rows are produced on demand: before each stripe of
the last kernels, every kernel of the group computes the rows that its consumers in the group will read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npuc.lower.kernel import Kernel


@dataclass(frozen=True)
class Group:
    """Kernels [start, stop) of the kernel list, computed in `stripes` steps."""

    start: int
    stop: int
    stripes: int = 1


@dataclass(frozen=True)
class Step:
    """Rows `y` of kernel number `kernel`, for all its channels."""

    kernel: int
    y: range


def expand(kernels: Sequence[Kernel], group: Group) -> list[Step]:
    """Steps of one group in order; every row of every kernel is computed exactly once."""
    members = range(group.start, group.stop)
    if group.stripes == 1:
        return [Step(i, range(kernels[i].space[1])) for i in members]
    consumers = _consumers(kernels, members)
    done = dict.fromkeys(members, 0)
    steps = []
    for stripe in range(1, group.stripes + 1):
        need = _needed(kernels, members, consumers, stripe, group.stripes)
        for i in members:
            if need[i] > done[i]:
                steps.append(Step(i, range(done[i], need[i])))
                done[i] = need[i]
    return steps


def _consumers(kernels: Sequence[Kernel], members: range) -> dict[int, list[int]]:
    """Kernels of the group that read what each kernel writes."""
    return {i: [j for j in members if j != i and kernels[i].ofm.storage in reads_of(kernels[j])] for i in members}


def reads_of(kernel: Kernel) -> set[str]:
    """Storages that the kernel reads."""
    return {operand.storage for operand in (kernel.ifm, kernel.ifm2) if operand is not None}


def _needed(
    kernels: Sequence[Kernel], members: range, consumers: Mapping[int, list[int]], stripe: int, stripes: int
) -> dict[int, int]:
    need: dict[int, int] = {}
    for i in reversed(members):
        rows = kernels[i].space[1]
        if stripe == stripes:
            need[i] = rows
        elif not consumers[i]:
            need[i] = rows * stripe // stripes
        else:
            need[i] = max((_rows_read(kernels[i], kernels[j], need[j]) for j in consumers[i] if need[j]), default=0)
    return need


def _rows_read(producer: Kernel, consumer: Kernel, rows: int) -> int:
    if consumer.ifm is not None and consumer.ifm.storage == producer.ofm.storage:
        first = consumer.input_rows(range(rows)).stop
    else:
        first = 0
    second = consumer.ifm2 is not None and consumer.ifm2.storage == producer.ofm.storage
    return min(max(first, rows if second else 0), producer.space[1])


def can_ring(kernels: Sequence[Kernel], group: Group, storage: str) -> bool:
    """True when the storage lives inside the group only and its rows can roll through a line buffer."""
    inside = range(group.start, group.stop)
    row, rows = None, None
    for i, kernel in enumerate(kernels):
        for operand in (kernel.ofm, kernel.ifm, kernel.ifm2):
            if operand is None or operand.storage != storage:
                continue
            if i not in inside or not kernel.spatial or kernel.whole_input or not operand.is_pixel_major:
                return False
            if operand.shape[0] != 1 or operand.offset_bytes >= max(operand.row, 1) or operand.row == 0:
                return False
            if row not in (None, operand.row) or rows not in (None, operand.shape[1]):
                return False
            row, rows = operand.row, operand.shape[1]
    return True


def ring_rows(kernels: Sequence[Kernel], steps: Sequence[Step], storage: str) -> int:
    """Rows that a line buffer for `storage` must hold while `steps` run."""
    writers = [i for i in dict.fromkeys(step.kernel for step in steps) if kernels[i].ofm.storage == storage]
    readers = [i for i in dict.fromkeys(step.kernel for step in steps) if storage in reads_of(kernels[i])]
    done = dict.fromkeys((step.kernel for step in steps), 0)
    most = 1
    for step in steps:
        if step.kernel in writers:
            most = max(most, step.y.stop - min(_oldest(kernels[i], storage, done[i]) for i in readers))
        done[step.kernel] = step.y.stop
    return most


def _oldest(kernel: Kernel, storage: str, done: int) -> int:
    """First row of the storage that the kernel still reads after computing `done` of its rows."""
    rows = kernel.space[1]
    if done >= rows:
        return 1 << 30
    oldest = []
    if kernel.ifm is not None and kernel.ifm.storage == storage:
        oldest.append(kernel.input_rows(range(done, rows)).start)
    if kernel.ifm2 is not None and kernel.ifm2.storage == storage:
        oldest.append(done)
    return min(oldest)
