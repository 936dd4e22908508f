"""Parameters in SRAM: which constants share a buffer, and before which task each buffer is loaded.

Flash is one stream, so buffers are loaded in the order of their first use; each load moves as early as the live memory
and the depth of the DMA queue allow, which is what hides the stream behind earlier layers.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuc.lower.kernel import Kernel
from npuc.schedule.memory import aligned
from npuc.task.task import Buffer, Compute, Load, Part, Task, weight_bytes

Profile = npt.NDArray[np.int64]

LOADS_AHEAD = 12
"""Loads that may wait in the DMA queue (depth 16) while the fetcher goes on."""


@dataclass(frozen=True)
class ParameterUse:
    """A parameters buffer with the first and last compute task that need it."""

    buffer: Buffer
    first: int
    last: int


def pack_buffers(
    kernels: Sequence[Kernel], computes: Sequence[Compute], coalesce_bytes: int, streamed: Set[str]
) -> list[ParameterUse]:
    """Buffers in the order of first use: small kernels share one, weights of large ones get one per channel range.

    Kernels in `streamed` get none.
    """
    by_name = {kernel.node: kernel for kernel in kernels}
    packer = _Packer(coalesce_bytes)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, task in enumerate(computes):
        first.setdefault(task.kernel, position)
        last[task.kernel] = position
    for name, position in first.items():
        kernel = by_name[name]
        if not kernel.parameters.n_bytes or name in streamed:
            continue
        if kernel.parameters.n_bytes <= coalesce_bytes:
            packer.add(Part(name, 0, kernel.parameters.n_bytes), position, last[name])
        else:
            packer.add(Part(name, 0, kernel.parameters.head_bytes), position, last[name])
            packer.close()
            for part, begin, end in _weight_parts(kernel, computes):
                packer.add(part, begin, end)
                packer.close()
        if position == 0:
            packer.close()
    packer.close()
    return packer.uses


def _weight_parts(kernel: Kernel, computes: Sequence[Compute]) -> list[tuple[Part, int, int]]:
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for position, task in enumerate(computes):
        if task.kernel == kernel.node:
            span = weight_bytes(kernel, task)
            found[span] = (found.get(span, (position, 0))[0], position)
    return [(Part(kernel.node, *span), *ends) for span, ends in found.items()]


class _Packer:
    """Collects parts until they fill a buffer."""

    def __init__(self, coalesce_bytes: int) -> None:
        self.uses: list[ParameterUse] = []
        self._limit = coalesce_bytes
        self._parts: list[Part] = []
        self._first, self._last, self._bytes = 0, 0, 0

    def add(self, part: Part, first: int, last: int) -> None:
        if part.stop == part.start:
            return
        size = aligned(part.stop - part.start)
        if self._parts and self._bytes + size > self._limit:
            self.close()
        if not self._parts:
            self._first, self._last, self._bytes = first, last, 0
        self._parts.append(part)
        self._first, self._last = min(self._first, first), max(self._last, last)
        self._bytes += part.stop - part.start

    def close(self) -> None:
        if self._parts:
            buffer = Buffer(f"p{len(self.uses)}", "parameters", self._bytes, parts=tuple(self._parts))
            self.uses.append(ParameterUse(buffer, self._first, self._last))
            self._parts = []


def misfits(uses: Sequence[ParameterUse], live: Profile, capacity_bytes: int) -> set[str]:
    """Kernels whose parameters find no room beside the activations `live` [n tasks] even while they are used."""
    total = live.copy()
    for use in uses:
        total[use.first : use.last + 1] += aligned(use.buffer.n_bytes)
    found: set[str] = set()
    left = list(uses)
    while len(total) and total.max() > capacity_bytes:
        at = int(total.argmax())
        there = [use for use in left if use.first <= at <= use.last]
        if not there:
            break
        largest = max(there, key=lambda use: use.buffer.n_bytes)
        left.remove(largest)
        total[largest.first : largest.last + 1] -= aligned(largest.buffer.n_bytes)
        found |= {part.kernel for part in largest.buffer.parts}
    return found


def place_loads(uses: Sequence[ParameterUse], live: Profile, capacity_bytes: int) -> list[int]:
    """Compute task before which each buffer is loaded, as early as `live` [n tasks] and the queue allow.

    `live` are activation bytes; every buffer counts from its load to its last use.
    """
    total = live.copy()
    for use in uses:
        total[use.first : use.last + 1] += aligned(use.buffer.n_bytes)
    positions: list[int] = []
    for index, use in enumerate(uses):
        lowest = positions[-1] if positions else 0
        if index >= LOADS_AHEAD:
            lowest = max(lowest, uses[index - LOADS_AHEAD].first)
        position = use.first
        while position > lowest and total[position - 1] + aligned(use.buffer.n_bytes) <= capacity_bytes:
            position -= 1
        total[position : use.first] += aligned(use.buffer.n_bytes)
        positions.append(position)
    return positions


def interleave(computes: Sequence[Compute], uses: Sequence[ParameterUse], positions: Sequence[int]) -> list[Task]:
    """Compute tasks with the loads in their places."""
    tasks: list[Task] = []
    pending = list(zip(positions, uses, strict=True))
    for index, compute in enumerate(computes):
        while pending and pending[0][0] <= index:
            buffer = pending.pop(0)[1].buffer
            tasks.append(Load(buffer.name, 0, buffer.n_bytes))
        tasks.append(compute)
    return tasks
