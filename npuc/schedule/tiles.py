"""Output-channel tiles: the ways in which a layer's weights can be cut, with what each tile costs."""

from __future__ import annotations

from dataclasses import dataclass

from isa.target import Target
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import choose_block
from npuc.task.task import Compute

TILE_BYTES = (2048, 4096, 8192, 16384, 32768, 65536)
"""Weight bytes aimed at by a tile."""


@dataclass(frozen=True)
class Tiling:
    """`channels` of each tile of a kernel, and the cycles of one such tile."""

    channels: int
    n_tiles: int
    tile_cycles: int


def tilings(kernel: Kernel, target: Target, largest_bytes: int, rows: range) -> list[Tiling]:
    """Candidates for one kernel that computes `rows` at a time, coarsest first."""
    n, _, width, channels = kernel.space
    per_channel = kernel.parameters.weight_channel_bytes
    lanes = target.architecture.cout_lanes
    sizes = [channels] if channels * per_channel <= largest_bytes or not can_tile(kernel) else []
    if can_tile(kernel):
        for tile_bytes in TILE_BYTES:
            size = max(tile_bytes // max(per_channel, 1) // lanes * lanes, lanes)
            if size < channels and (size * per_channel <= largest_bytes or size == lanes):
                sizes.append(-(-channels // -(-channels // size)) + lanes - 1)
                sizes[-1] -= sizes[-1] % lanes
    result = []
    for size in sorted(set(sizes), reverse=True):
        task = Compute(kernel.node, kernel.mnemonic, 0, rows, range(width), range(size), _k_of(kernel))
        _, cycles = choose_block(kernel, task, target)
        result.append(Tiling(size, -(-channels // size), cycles * n))
    return result


def _k_of(kernel: Kernel) -> range:
    group = kernel.groups[0] if kernel.groups else None
    return range(group.k, group.k + group.k_channels) if group else range(1)


def can_tile(kernel: Kernel) -> bool:
    """True for plain convolutions: one channel group, weights packed by lanes."""
    return kernel.mnemonic == "mac.conv" and len(kernel.groups) == 1


def tile_tasks(
    kernel: Kernel, y: range, channels: int, target: Target, blocks: dict[tuple[object, ...], tuple[int, int, int]]
) -> list[Compute]:
    """Instructions of a kernel for output rows `y`, cut into tiles of `channels`; `blocks` caches block shapes."""
    n, _, width, total = kernel.space
    groups = [(g.start, g.stop, range(g.k, g.k + g.k_channels)) for g in kernel.groups] or [(0, total, range(1))]
    tasks = []
    for batch in range(n):
        for start, stop, k in groups:
            for c in range(start, stop, channels):
                tile = range(c, min(c + channels, stop))
                task = Compute(kernel.node, kernel.mnemonic, batch, y, range(width), tile, k)
                key = (kernel.node, len(y), len(tile), y.start == 0)
                if key not in blocks:
                    blocks[key] = choose_block(kernel, task, target)[0]
                tasks.append(Compute(kernel.node, kernel.mnemonic, batch, y, range(width), tile, k, blocks[key]))
    return tasks
