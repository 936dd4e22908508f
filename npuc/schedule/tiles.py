"""Output-channel tiles: the ways in which a layer's weights can be cut, with what each tile costs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace

from isa.record import WORD_BYTES
from isa.target import Target
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import Choice, Request, choose_blocks
from npuc.task.fields import layer_fields
from npuc.task.task import Call, Compute, Work

TILE_BYTES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Weight bytes aimed at by a tile."""


@dataclass(frozen=True)
class Tiling:
    """`channels` of each tile of a kernel, and the cycles of one such tile.

    `streamed`: the array reads the weights in flash, `flash_bytes` in all. `load_cycles`: those for which the loads of
    its parameters keep tasks from the port.
    """

    channels: int
    n_tiles: int
    tile_cycles: int
    streamed: bool = False
    flash_bytes: int = 0
    load_cycles: int = 0


class Blocks:
    """Block shapes that were already chosen: kernels of equal geometry share them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._geometry: dict[Hashable, int] = {}
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[Hashable, Choice] = {}

    def prepare(self, requests: Iterable[Request]) -> list[Choice]:
        """Best block shapes of many tasks and their cycles; those that are new are chosen at once."""
        asked = [(self._key(request), request) for request in requests]
        new = {key: request for key, request in asked if key not in self._known}
        typical = [_typical(request) for request in new.values()]
        self._known |= zip(new, choose_blocks(typical, self._target), strict=True)
        return [self._known[key] for key, _ in asked]

    def of(self, request: Request) -> Choice:
        """Best block shape of a task and its cycles."""
        return self.prepare([request])[0]

    def _key(self, request: Request) -> Hashable:
        kernel, task = request.kernel, request.task
        operands = (kernel.ofm, kernel.ifm, kernel.ifm2)
        held = kernel.node, *((operand.c0, operand.block) for operand in operands if operand is not None)
        if held not in self._geometry:
            self._geometry[held] = self._numbers.setdefault(_geometry(kernel), len(self._numbers))
        extent = (len(task.y), len(task.x), len(task.c), len(task.k), task.y.start == 0)
        return self._geometry[held], extent, request.streamed


def _typical(request: Request) -> Request:
    """The task that stands for all of its size, so that no choice depends on which of them was asked for first."""
    task, rows = request.task, request.kernel.space[1]
    start = min(len(task.y), rows - len(task.y)) if task.y.start else 0
    y, c, k = range(start, start + len(task.y)), range(len(task.c)), range(len(task.k))
    return replace(request, task=replace(task, n=0, y=y, c=c, k=k))


def _geometry(kernel: Kernel) -> Hashable:
    """All that the cost of a kernel's tasks depends on, addresses left out."""
    coded = len(kernel.parameters.weights) if kernel.parameters.code_table else 0
    values = layer_fields(kernel, lambda _: 0, {}, 0, (1, 1, 8))
    return kernel.mnemonic, coded, kernel.space, tuple(sorted(values.items()))


def tile_sizes(kernel: Kernel, lanes: int, largest_bytes: int) -> list[int]:
    """Output channels of a tile, largest first: all of them, and what the sizes of TILE_BYTES come to."""
    channels, per_channel = kernel.space[3], kernel.parameters.weight_channel_bytes
    if not can_tile(kernel):
        return [channels]
    sizes = [channels] if channels * per_channel <= largest_bytes else []
    for tile_bytes in TILE_BYTES:
        size = max(tile_bytes // max(per_channel, 1) // lanes * lanes, lanes)
        if size < channels and (size * per_channel <= largest_bytes or size == lanes):
            even = -(-channels // -(-channels // size)) + lanes - 1
            sizes.append(even - even % lanes)
    return sorted(set(sizes) or {channels}, reverse=True)


def tile_request(kernel: Kernel, rows: range, n_channels: int, *, streamed: bool) -> Request:
    """The first tile of a kernel that computes `rows` at a time."""
    width = kernel.space[2]
    task = Compute(kernel.node, kernel.mnemonic, 0, rows, range(width), range(n_channels), _k_of(kernel))
    return Request(kernel, task, streamed)


def loaded_tiling(request: Request, blocks: Blocks, port_bytes: int = 0) -> Tiling:
    """Tiling whose weights are loaded, from its first tile, through a port that moves so many bytes a cycle (0: it has
    room for loads): they slow down by the part of it that tasks take, for which those of the kernel stand."""
    n, _, _, channels = request.kernel.space
    choice, size = blocks.of(request), len(request.task.c)
    waiting = 0
    if port_bytes and not request.kernel.shares:
        taken = min(WORD_BYTES * choice.amounts.port_words // port_bytes, choice.cycles)
        waiting = request.kernel.parameters.n_bytes // port_bytes * taken // max(choice.cycles, 1)
    return Tiling(size, -(-channels // size), choice.cycles * n, load_cycles=waiting)


def streamed_tiling(request: Request, blocks: Blocks) -> Tiling:
    """Tiling of a kernel that reads its weights in flash, once for each block of pixels, from its first tile."""
    n, _, _, channels = request.kernel.space
    choice, size = blocks.of(request), len(request.task.c)
    n_tiles = -(-channels // size)
    flash_bytes = choice.amounts.flash_bytes * n * n_tiles
    return Tiling(size, n_tiles, choice.cycles * n, streamed=True, flash_bytes=flash_bytes)


def arm_tilings(kernel: Kernel) -> list[Tiling]:
    """The one way to run a node on the Arm core; none for a kernel of the NPU."""
    return [Tiling(1, 1, sum(kernel.arm.cycles))] if kernel.arm is not None else []


def _k_of(kernel: Kernel) -> range:
    group = kernel.groups[0] if kernel.groups else None
    return range(group.k, group.k + group.k_channels) if group else range(1)


def can_tile(kernel: Kernel) -> bool:
    """True for plain convolutions: one channel group, weights packed by lanes."""
    return kernel.mnemonic == "mac.conv" and len(kernel.groups) == 1


def tile_tasks(kernel: Kernel, y: range, c: range, channels: int) -> list[Work]:
    """Instructions of a kernel for output rows `y` and channels `c`, cut into tiles of `channels`, without blocks; on
    the Arm core calls `y`."""
    if kernel.arm is not None:
        return [Call(kernel.node, i) for i in y]
    n, _, width, total = kernel.space
    groups = [(g.start, g.stop, range(g.k, g.k + g.k_channels)) for g in kernel.groups] or [(0, total, range(1))]
    tasks: list[Work] = []
    for batch in range(n):
        for start, stop, k in groups:
            end = min(stop, c.stop)
            for first in range(max(start, c.start), end, channels):
                tile = range(first, min(first + channels, end))
                tasks.append(Compute(kernel.node, kernel.mnemonic, batch, y, range(width), tile, k))
    return tasks
