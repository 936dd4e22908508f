"""Output-channel tiles: the ways in which a layer's weights can be cut, with what each tile costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isa.target import Target
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import Block, choose_block
from npuc.task.task import Compute

TILE_BYTES = (2048, 4096, 8192, 16384, 32768, 65536)
"""Weight bytes aimed at by a tile."""


@dataclass(frozen=True)
class Tiling:
    """`channels` of each tile of a kernel, and the cycles of one such tile."""

    channels: int
    n_tiles: int
    tile_cycles: int


def tilings(kernel: Kernel, target: Target, largest_bytes: int, rows: range, *, streamed: bool) -> list[Tiling]:
    """Candidates for one kernel that computes `rows` at a time, coarsest first; streamed weights are not cut."""
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
        _, cycles = choose_block(kernel, task, target, streamed=streamed)
        result.append(Tiling(size, -(-channels // size), cycles * n))
    return result


def _k_of(kernel: Kernel) -> range:
    group = kernel.groups[0] if kernel.groups else None
    return range(group.k, group.k + group.k_channels) if group else range(1)


def can_tile(kernel: Kernel) -> bool:
    """True for plain convolutions: one channel group, weights packed by lanes."""
    return kernel.mnemonic == "mac.conv" and len(kernel.groups) == 1


class Blocks:
    """Block shapes that were already chosen, by kernel, tile size and where the parameters are."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[tuple[str, int, int, bool, bool], Block] = {}

    def of(self, kernel: Kernel, task: Compute, *, streamed: bool) -> Block:
        """Best block shape of a task."""
        key = (kernel.node, len(task.y), len(task.c), task.y.start == 0, streamed)
        if key not in self._known:
            self._known[key] = choose_block(kernel, task, self._target, streamed=streamed)[0]
        return self._known[key]


def tile_tasks(kernel: Kernel, y: range, channels: int, blocks: Blocks, *, streamed: bool) -> list[Compute]:
    """Instructions of a kernel for output rows `y`, cut into tiles of `channels`."""
    n, _, width, total = kernel.space
    groups = [(g.start, g.stop, range(g.k, g.k + g.k_channels)) for g in kernel.groups] or [(0, total, range(1))]
    tasks = []
    for batch in range(n):
        for start, stop, k in groups:
            for c in range(start, stop, channels):
                tile = range(c, min(c + channels, stop))
                task = Compute(kernel.node, kernel.mnemonic, batch, y, range(width), tile, k)
                tasks.append(replace(task, block=blocks.of(kernel, task, streamed=streamed)))
    return tasks
