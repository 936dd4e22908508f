"""Drafts: groups and streamed parameters in, tasks and live ranges out; addresses come later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property

from isa.instructions import BY_MNEMONIC
from isa.target import Target
from npuc.lower.coding import WeightCoder
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import Choice, Request, busy_for
from npuc.schedule.follow_kernel import TaskTable, table_of
from npuc.schedule.group_peaks import GroupPeaks
from npuc.schedule.memory import Live, Storage, aligned, expand_all, live_ranges, profile
from npuc.schedule.parameters import Need, ParameterUse, Profile, needs_of, pack_buffers
from npuc.schedule.policy import Policy
from npuc.schedule.ranges import RangeBook
from npuc.schedule.stripes import Group, Step, StripeBook
from npuc.schedule.tile_model import choose_tiles
from npuc.schedule.tiles import (
    Blocks,
    Tiling,
    arm_tilings,
    loaded_tiling,
    streamed_tiling,
    tile_request,
    tile_sizes,
    tile_tasks,
)
from npuc.task.task import Call, Compute, Work, channel_cuts


@dataclass(frozen=True)
class Draft:
    """Kernels with their weights coded for the tasks, tasks, and live ranges before addresses are known.

    `costs` are those of the tasks alone on the machine; `roof_cycles` what the busiest unit and the flash need, so that
    no placement takes fewer.
    """

    kernels: list[Kernel]
    computes: list[Work]
    lives: list[Live]
    streamed: frozenset[str]
    costs: list[Choice]
    roof_cycles: int

    @cached_property
    def table(self) -> TaskTable:
        """Its tasks as `estimate.py` follows them."""
        return table_of(self.kernels, self.computes, self.costs)

    @cached_property
    def needs(self) -> list[Need]:
        """Parameters that its tasks need in SRAM."""
        return needs_of(self.kernels, self.computes, self.streamed)

    def packed(self, smallest_bytes: int, largest_bytes: int) -> tuple[ParameterUse, ...]:
        """Its parameters in buffers, as `pack_buffers` makes them."""
        sizes = smallest_bytes, largest_bytes
        if sizes not in self._packed:
            self._packed[sizes] = tuple(pack_buffers(self.needs, *sizes))
        return self._packed[sizes]

    @cached_property
    def _packed(self) -> dict[tuple[int, int], tuple[ParameterUse, ...]]:
        return {}

    @cached_property
    def crowded(self) -> list[Work]:
        """The tasks with the block shapes that leave a part of the port to loads."""
        return [
            replace(task, block=cost.crowded) if isinstance(task, Compute) else task
            for task, cost in zip(self.computes, self.costs, strict=True)
        ]

    @cached_property
    def live(self) -> Profile:
        """Bytes of activations live at each task."""
        return profile(self.lives, len(self.computes))


@dataclass
class Drafter:
    """Makes drafts of one network, and remembers what they share."""

    kernels: Sequence[Kernel]
    """With raw weights."""
    storages: Mapping[str, Storage]
    target: Target
    policy: Policy
    coder: WeightCoder = field(init=False)
    book: StripeBook = field(init=False)
    peaks: GroupPeaks = field(init=False)
    blocks: Blocks = field(init=False)
    ranges: RangeBook = field(init=False)

    def __post_init__(self) -> None:
        self.coder = WeightCoder(self.kernels)
        self.book = StripeBook(self.coder.whole())
        self.peaks = GroupPeaks(self.book, self.storages)
        self.blocks = Blocks(self.target)
        self.ranges = RangeBook(self.kernels, self.blocks, self.target)

    @property
    def parameter_bytes(self) -> int:
        """Bytes of all parameters, each stored once."""
        return sum(aligned(kernel.parameters.n_bytes) for kernel in self.book.kernels if not kernel.shares)

    @property
    def dense(self) -> frozenset[str]:
        """Owners of the parameters of fully-connected layers."""
        found = (k for k in self.kernels if k.mnemonic == "mac.conv" and k.ifm is not None)
        return frozenset(k.owner for k in found if k.space[1:3] == (1, 1) and k.ifm and k.ifm.shape[1:3] == (1, 1))

    @property
    def largest_parameters(self) -> int:
        """Bytes of the largest kernel's raw parameters."""
        return max((kernel.parameters.n_bytes for kernel in self.kernels), default=0)

    def draft(
        self,
        groups: Sequence[Group],
        streamed: Set[str],
        tile_bytes: int,
        *,
        may_stream: bool,
        port_counts: bool = False,
        in_ranges: bool = False,
    ) -> Draft:
        """Tasks of these groups, with tiles of at most `tile_bytes` of weights.

        `may_stream`: other parameters than `streamed` may also stay in flash where it pays. `port_counts`: in that,
        loads slow tasks down at a port that they share. `in_ranges`: kernels of
        different units run beside each other, cut into ranges of rows.
        """
        steps, owner = expand_all(self.book, groups)
        lives = live_ranges(self.book, self.storages, groups, steps, owner)
        windows = {live.name: live.window for live in lives if live.window}
        kernels = [kernel.in_windows(windows) for kernel in self.book.kernels]
        of_steps = [groups[of] for of in owner]
        chosen = self._tilings(kernels, steps, of_steps, streamed, tile_bytes, may_stream, port_counts)
        in_flash = frozenset(streamed) | {name for name, tiling in chosen.items() if tiling.streamed}
        requests, spans = _requests(kernels, steps, chosen, in_flash)
        if in_ranges:
            requests, spans = self.ranges.cut(requests, spans)
        costs = self._costs(requests)
        computes = _with_blocks(requests, costs)
        cuts = channel_cuts(computes)
        coded = [self.coder.code(k.node, cuts.get(k.node, ())).in_windows(windows) for k in self.kernels]
        lives = _over_tasks(lives, spans)
        roof = self._roof(computes, costs, coded, in_flash)
        return Draft(coded, computes, lives, in_flash, costs, roof)

    def _tilings(
        self,
        kernels: Sequence[Kernel],
        steps: Sequence[Step],
        groups: Sequence[Group],
        streamed: Set[str],
        tile_bytes: int,
        may_stream: bool,
        port_counts: bool,
    ) -> dict[str, Tiling]:
        """The tiling of each owner of parameters, for steps that belong to `groups`."""
        of = {step.kernel: group for step, group in zip(steps, groups, strict=True)}
        order = list(dict.fromkeys(step.kernel for step in steps))
        shared = {kernel.shares for kernel in kernels}
        loaded: list[list[Request]] = []
        flash: list[list[Request]] = []
        for i in order:
            kernel, rows, group = kernels[i], range(kernels[i].space[1]), of[i]
            if kernel.arm is not None:
                loaded.append([])
                flash.append([])
                continue
            must, is_whole = kernel.owner in streamed, group.stripes == 1
            may = may_stream and is_whole and kernel.owner not in shared and bool(kernel.parameters.weights)
            channels = group.channels or kernel.space[3]
            sizes = self._sizes(kernel, channels, tile_bytes) if is_whole else [kernel.space[3]]
            sizes = sizes[:1] if kernel.owner in shared else sizes  # they are loaded once, and cut for every use
            loaded.append([] if must else [tile_request(kernel, rows, size, streamed=False) for size in sizes])
            flash.append([tile_request(kernel, rows, channels, streamed=True)] if must or may else [])
        self.blocks.prepare([request for found in (*loaded, *flash) for request in found])
        port_bytes = self.target.board.sram_read_bytes_per_cycle if port_counts else 0
        candidates = [
            arm_tilings(kernels[i])
            + [loaded_tiling(request, self.blocks, port_bytes) for request in first]
            + [streamed_tiling(request, self.blocks) for request in second]
            for i, first, second in zip(order, loaded, flash, strict=True)
        ]
        rate = self.target.board.flash_bytes_per_cycle
        chosen = choose_tiles([kernels[i] for i in order], candidates, rate)
        return {kernels[i].node: tiling for i, tiling in zip(order, chosen, strict=True)}

    def _sizes(self, kernel: Kernel, channels: int, largest_bytes: int) -> list[int]:
        """Channels of a tile, of a kernel that computes so many at a time."""
        sizes = tile_sizes(kernel, self.target.architecture.cout_lanes, largest_bytes)
        if self.policy.tile_bytes is not None:
            per_channel = kernel.parameters.weight_channel_bytes
            fitting = [size for size in sizes if size * per_channel <= self.policy.tile_bytes]
            sizes = fitting[:1] or sizes[-1:]
        return sorted({min(size, channels) for size in sizes}, reverse=True)

    def _costs(self, requests: Sequence[Request | Call]) -> list[Choice]:
        """What each task costs."""
        nodes = {kernel.node: kernel.arm for kernel in self.kernels}
        chosen = iter(self.blocks.prepare(request for request in requests if isinstance(request, Request)))
        found = []
        for request in requests:
            if isinstance(request, Request):
                found.append(next(chosen))
            else:
                node = nodes[request.kernel]
                cycles = node.cycles[request.index] if node is not None else 0
                found.append(busy_for(cycles))
        return found

    def _roof(
        self, computes: Sequence[Work], costs: Sequence[Choice], coded: Sequence[Kernel], streamed: Set[str]
    ) -> int:
        busy: dict[int, int] = {}
        flash_bytes = sum(k.parameters.n_bytes for k in coded if not k.shares and k.node not in streamed)
        for task, cost in zip(computes, costs, strict=True):
            busy[task.queue] = busy.get(task.queue, 0) + cost.least.roof_cycles
            flash_bytes += cost.least.flash_bytes
            flash_bytes += BY_MNEMONIC[task.mnemonic].length_bytes if isinstance(task, Compute) else 0
        return max([flash_bytes // self.target.board.flash_bytes_per_cycle, *busy.values()])


def _requests(
    kernels: Sequence[Kernel], steps: Sequence[Step], chosen: Mapping[str, Tiling], streamed: Set[str]
) -> tuple[list[Request | Call], list[range]]:
    """Compute tasks of all steps, and the task positions of each step."""
    requests: list[Request | Call] = []
    spans = []
    for step in steps:
        kernel = kernels[step.kernel]
        tasks = tile_tasks(kernel, step.y, step.c, chosen[kernel.owner].channels)
        spans.append(range(len(requests), len(requests) + len(tasks)))
        in_flash = kernel.owner in streamed
        requests += [Request(kernel, task, in_flash) if isinstance(task, Compute) else task for task in tasks]
    return requests, spans


def _with_blocks(requests: Sequence[Request | Call], costs: Sequence[Choice]) -> list[Work]:
    """The tasks of the requests with their block shapes, and the calls as they are."""
    return [
        replace(request.task, block=cost.block) if isinstance(request, Request) else request
        for request, cost in zip(requests, costs, strict=True)
    ]


def _over_tasks(lives: Sequence[Live], spans: Sequence[range]) -> list[Live]:
    if not spans:
        return [replace(live, first=0, last=0) for live in lives]
    return [replace(live, first=spans[live.first].start, last=spans[live.last].stop - 1) for live in lives]
