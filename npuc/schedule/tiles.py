"""Output-channel tiles: the ways in which a layer's weights can be cut, with what each tile costs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from isa.target import Target
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import Block, choose_block
from npuc.task.fields import layer_fields
from npuc.task.task import Call, Compute, Work

TILE_BYTES = (2048, 4096, 8192, 16384, 32768, 65536)
"""Weight bytes aimed at by a tile."""


@dataclass(frozen=True)
class Tiling:
    """`channels` of each tile of a kernel, and the cycles of one such tile."""

    channels: int
    n_tiles: int
    tile_cycles: int


class Blocks:
    """Block shapes that were already chosen: kernels of equal geometry share them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._geometry: dict[str, Hashable] = {}
        self._known: dict[Hashable, tuple[Block, int]] = {}

    def of(self, kernel: Kernel, task: Compute, *, streamed: bool) -> tuple[Block, int]:
        """Best block shape of a task and its cycles."""
        if kernel.node not in self._geometry:
            self._geometry[kernel.node] = _geometry(kernel)
        extent = (len(task.y), len(task.x), len(task.c), len(task.k), task.y.start == 0)
        key = (self._geometry[kernel.node], extent, streamed)
        if key not in self._known:
            self._known[key] = choose_block(kernel, task, self._target, streamed=streamed)
        return self._known[key]


def _geometry(kernel: Kernel) -> Hashable:
    """All that the cost of a kernel's tasks depends on, addresses left out."""
    coded = len(kernel.parameters.weights) if kernel.parameters.code_table else 0
    values = layer_fields(kernel, lambda _: 0, {}, 0, (1, 1, 8))
    return kernel.mnemonic, coded, kernel.space, tuple(sorted(values.items()))


def tilings(
    kernel: Kernel, target: Target, largest_bytes: int, rows: range, blocks: Blocks, *, streamed: bool
) -> list[Tiling]:
    """Candidates for one kernel that computes `rows` at a time, coarsest first; streamed weights are not cut."""
    if kernel.arm is not None:
        return [Tiling(1, 1, sum(kernel.arm.cycles))]
    n, _, width, channels = kernel.space
    per_channel = kernel.parameters.weight_channel_bytes
    lanes = target.architecture.cout_lanes
    whole = streamed or not can_tile(kernel)
    sizes = [channels] if channels * per_channel <= largest_bytes or whole else []
    if not whole:
        for tile_bytes in TILE_BYTES:
            size = max(tile_bytes // max(per_channel, 1) // lanes * lanes, lanes)
            if size < channels and (size * per_channel <= largest_bytes or size == lanes):
                sizes.append(-(-channels // -(-channels // size)) + lanes - 1)
                sizes[-1] -= sizes[-1] % lanes
    result = []
    for size in sorted(set(sizes) or {channels}, reverse=True):
        task = Compute(kernel.node, kernel.mnemonic, 0, rows, range(width), range(size), _k_of(kernel))
        _, cycles = blocks.of(kernel, task, streamed=streamed)
        result.append(Tiling(size, -(-channels // size), cycles * n))
    return result


def _k_of(kernel: Kernel) -> range:
    group = kernel.groups[0] if kernel.groups else None
    return range(group.k, group.k + group.k_channels) if group else range(1)


def can_tile(kernel: Kernel) -> bool:
    """True for plain convolutions: one channel group, weights packed by lanes."""
    return kernel.mnemonic == "mac.conv" and len(kernel.groups) == 1


def tile_tasks(kernel: Kernel, y: range, channels: int, blocks: Blocks, *, streamed: bool) -> list[Work]:
    """Instructions of a kernel for output rows `y`, cut into tiles of `channels`; calls `y` on the Arm core."""
    if kernel.arm is not None:
        return [Call(kernel.node, i) for i in y]
    n, _, width, total = kernel.space
    groups = [(g.start, g.stop, range(g.k, g.k + g.k_channels)) for g in kernel.groups] or [(0, total, range(1))]
    tasks: list[Work] = []
    for batch in range(n):
        for start, stop, k in groups:
            for c in range(start, stop, channels):
                tile = range(c, min(c + channels, stop))
                task = Compute(kernel.node, kernel.mnemonic, batch, y, range(width), tile, k)
                tasks.append(replace(task, block=blocks.of(kernel, task, streamed=streamed)[0]))
    return tasks
