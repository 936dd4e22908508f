"""Parameters in SRAM: which constants share a buffer, and before which task each buffer is loaded.

Flash is one stream, so buffers are loaded in the order of their first use; each load moves as early as the live memory
allows, which is what hides the stream behind earlier layers. Where it stands in the program is up to `estimate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isa.timing.compiled import compiled
from npuc.lower.kernel import Kernel
from npuc.schedule.memory import aligned
from npuc.schedule.policy import Policy
from npuc.task.task import Buffer, Call, Load, Part, Task, Work, weight_bytes

GROWTH = 4
"""A buffer holds at most this fraction of the bytes before it, and of the bytes behind it."""

Profile = npt.NDArray[np.int64]

ParameterPart = tuple[Part, int, int]
"""Bytes of parameters, first and last compute task that need them."""


@dataclass(frozen=True)
class ParameterUse:
    """A parameters buffer with the first and last compute task that need it."""

    buffer: Buffer
    first: int
    last: int


@dataclass(frozen=True)
class Need:
    """Parameters of one owner: the whole of them, and head and tiles one by one; each part with the first and last
    compute task that need it."""

    whole: ParameterPart
    pieces: tuple[ParameterPart, ...]


def needs_of(kernels: Sequence[Kernel], computes: Sequence[Work], streamed: Set[str]) -> list[Need]:
    """What the compute tasks need of parameters, in the order of first use; kernels in `streamed` need no buffer."""
    by_name = {kernel.node: kernel for kernel in kernels}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, task in enumerate(computes):
        owner = by_name[task.kernel].owner
        first.setdefault(owner, position)
        last[owner] = position
    tiles = _tile_parts(by_name, computes)
    needs = []
    for name, position in first.items():
        parameters = by_name[name].parameters
        if parameters.n_bytes and name not in streamed:
            ends = position, last[name]
            head = (Part(name, 0, parameters.head_bytes), *ends)
            needs.append(Need((Part(name, 0, parameters.n_bytes), *ends), (head, *tiles.get(name, ()))))
    return needs


def pack_buffers(needs: Sequence[Need], smallest_bytes: int, largest_bytes: int) -> list[ParameterUse]:
    """Buffers in the order of first use, of at most `largest_bytes`.

    Parameters are gathered to buffers of at least `smallest_bytes`, so that a load is worth its instruction; 0: kernels
    share none.

    They grow from the start and shrink towards the end: the first layer must not wait for much, the last tile must not
    either, and in between few large loads let the stream run far ahead of the computation.
    """
    total = sum(need.whole[0].stop for need in needs)
    packer = _Packer(total, smallest_bytes or largest_bytes, largest_bytes)
    waiting: list[ParameterPart] = []
    ends = [*(need.whole[1] for need in needs[1:]), 1 << 40]
    for need, end in zip(needs, ends, strict=False):
        part, first, _ = need.whole
        waiting += [need.whole] if part.stop <= packer.limit() else need.pieces
        waiting.sort(key=_first_use)  # of kernels that run in slices, pieces of one are between those of another
        while waiting and _first_use(waiting[0]) < end:
            packer.add(*waiting.pop(0))
        if first == 0 or not smallest_bytes:
            packer.close()
    packer.close()
    return packer.uses


def _first_use(part: ParameterPart) -> int:
    return part[1]


def _tile_parts(kernels: Mapping[str, Kernel], computes: Sequence[Work]) -> dict[str, list[ParameterPart]]:
    """The weights of each tile with the first and last task that need them."""
    found: dict[tuple[str, int, int], tuple[int, int]] = {}
    for position, task in enumerate(computes):
        kernel = kernels[task.kernel]
        if kernel.parameters.weights and not isinstance(task, Call):
            key = (kernel.owner, *weight_bytes(kernel, task))
            found[key] = (found.get(key, (position, 0))[0], position)
    parts: dict[str, list[ParameterPart]] = {}
    for (name, start, stop), ends in found.items():
        padded = stop if stop < kernels[name].parameters.head_bytes + len(kernels[name].parameters.weights) else None
        end = padded if padded is not None else kernels[name].parameters.n_bytes
        parts.setdefault(name, []).append((Part(name, start, end), *ends))
    return parts


class _Packer:
    """Collects parts until they fill a buffer."""

    def __init__(self, total_bytes: int, smallest_bytes: int, largest_bytes: int) -> None:
        self.uses: list[ParameterUse] = []
        self._total, self._smallest, self._largest, self._packed = total_bytes, smallest_bytes, largest_bytes, 0
        self._parts: list[Part] = []
        self._first, self._last, self._bytes = 0, 0, 0

    def limit(self) -> int:
        """Bytes that the present buffer may have: a share of what came before and of what is left."""
        share = min(self._packed, self._total - self._packed) // GROWTH
        return min(max(share, self._smallest), self._largest)

    def add(self, part: Part, first: int, last: int) -> None:
        n_bytes = part.stop - part.start
        if not n_bytes:
            return
        if self._parts and self._bytes + n_bytes > self.limit():
            self.close()
        if not self._parts:
            self._first, self._last, self._bytes = first, last, 0
        before = self._parts[-1] if self._parts else None
        if before is not None and (before.kernel, before.stop) == (part.kernel, part.start):
            self._parts[-1] = Part(part.kernel, before.start, part.stop)
        else:
            self._parts.append(part)
        self._first, self._last = min(self._first, first), max(self._last, last)
        self._bytes += n_bytes

    def close(self) -> None:
        if self._parts:
            buffer = Buffer(f"p{len(self.uses)}", "parameters", self._bytes, parts=tuple(self._parts))
            self.uses.append(ParameterUse(buffer, self._first, self._last))
            self._packed += self._bytes
            self._parts = []


def needed_bytes(uses: Sequence[ParameterUse], live: Profile) -> int:
    """Bytes at the busiest task, when parameters are there only while they are used beside the activations `live`."""
    return int(_while_used(uses, live).max(initial=0))


def _while_used(uses: Sequence[ParameterUse], live: Profile) -> Profile:
    """Bytes at each task [n tasks] of `live` and of parameters between their first and their last use."""
    table = np.array([(use.first, use.last + 1, aligned(use.buffer.n_bytes)) for use in uses], np.int64).reshape(-1, 3)
    change = np.zeros(len(live) + 1, np.int64)
    np.add.at(change, table[:, 0], table[:, 2])
    np.subtract.at(change, table[:, 1], table[:, 2])
    return live + np.cumsum(change)[:-1]


def misfits(uses: Sequence[ParameterUse], live: Profile, capacity_bytes: int) -> set[str]:
    """Kernels whose parameters find no room beside the activations `live` [n tasks] even while they are used."""
    total = _while_used(uses, live)
    found: set[str] = set()
    ends = np.array([(use.first, use.last) for use in uses], np.int64).reshape(-1, 2)
    left = np.array([use.buffer.n_bytes for use in uses], np.int64)
    while len(total) and total.max() > capacity_bytes:
        at = int(total.argmax())
        there = np.where((ends[:, 0] <= at) & (at <= ends[:, 1]), left, 0)
        if not there.any():
            break
        index = int(there.argmax())
        left[index] = 0
        largest = uses[index]
        total[largest.first : largest.last + 1] -= aligned(largest.buffer.n_bytes)
        found |= {part.kernel for part in largest.buffer.parts}
    return found


def earliest(uses: Sequence[ParameterUse], computes: Sequence[Work], policy: Policy) -> list[int]:
    """First compute task before which a policy may load each buffer."""
    if policy.lookahead is None:
        return [0] * len(uses)
    starts: list[int] = []
    place: list[int] = []
    for position, task in enumerate(computes):
        if not position or task.kernel != computes[position - 1].kernel:
            starts.append(position)
        place.append(len(starts) - 1)
    return [starts[max(place[use.first] - policy.lookahead, 0)] for use in uses]


def place_loads(
    uses: Sequence[ParameterUse], live: Profile, capacity_bytes: int, limits: Sequence[int] = ()
) -> list[int]:
    """Compute task before which each buffer is loaded, as early as `live` [n tasks] and `limits` allow.

    `live` are activation bytes; every buffer counts from its load to its last use.
    """
    total = _while_used(uses, live)
    table = np.array([(use.first, aligned(use.buffer.n_bytes)) for use in uses], np.int64).reshape(-1, 2)
    lowest = np.array(limits, np.int64) if limits else np.zeros(len(uses), np.int64)
    positions = np.zeros(len(uses), np.int64)
    _move_ahead(table, lowest, capacity_bytes, total, positions)
    found: list[int] = positions.tolist()
    return found


@compiled
def _move_ahead(uses: Profile, limits: Profile, capacity_bytes: int, total: Profile, positions: Profile) -> None:
    """uses [n, 2]: first task that needs a buffer, bytes; total [n tasks]: bytes while buffers are used only."""
    before = 0
    for index in range(len(uses)):
        first, n_bytes = uses[index, 0], uses[index, 1]
        lowest = max(before, limits[index])
        before = first
        while before > lowest and total[before - 1] <= capacity_bytes - n_bytes:
            before -= 1
            total[before] += n_bytes
        positions[index] = before


def interleave(
    computes: Sequence[Work], uses: Sequence[ParameterUse], positions: Sequence[int], limits: Sequence[int]
) -> list[Task]:
    """Compute tasks with the loads in their places; a load with a limit waits for what comes before that task."""
    tasks: list[Task] = []
    at = 0
    for index, compute in enumerate(computes):
        while at < len(uses) and positions[at] <= index:
            buffer, limit = uses[at].buffer, limits[at]
            tasks.append(Load(buffer.name, 0, buffer.n_bytes, computes[limit - 1].kernel if limit else ""))
            at += 1
        tasks.append(compute)
    return tasks
