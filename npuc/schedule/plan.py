"""The search: groups, tiles and load order in, a plan with SRAM addresses out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from isa.target import Target
from npuc.allocation import Buffer as Range
from npuc.allocation import CapacityExceeded, Problem, allocate
from npuc.errors import DoesNotFit
from npuc.lower.kernel import Kernel
from npuc.schedule.grouping import choose_groups
from npuc.schedule.memory import Live, Storage, aligned, expand_all, live_ranges, profile
from npuc.schedule.parameters import ParameterUse, interleave, pack_buffers, place_loads
from npuc.schedule.stripes import Group, Step
from npuc.schedule.tile_model import choose_tiles
from npuc.schedule.tiles import tile_tasks, tilings
from npuc.task.task import Buffer, Compute, Load, Plan
from npuc.task.text import Scheduled

LOG = logging.getLogger("npuc.schedule")

COALESCE_BYTES = (4096, 2048, 8192)
"""Sizes up to which the parameters of neighbouring kernels share a buffer and a load."""

RESERVES = (1.0, 0.5, 0.25, 0.125, 0.0)
"""Shares of the parameters (at most of the SRAM) for which room is kept beside the activations."""


def schedule(
    kernels: Sequence[Kernel],
    storages: Mapping[str, Storage],
    target: Target,
    capacity_bytes: int,
    judge: Callable[[Plan], int],
    optimize: str = "latency",
) -> Scheduled:
    """The best plan found within `capacity_bytes` of SRAM; `judge` gives the exact cycles of a plan.

    `optimize` "memory" looks for the smallest peak instead of the fewest cycles. DoesNotFit names what is live at the
    peak when nothing fits.
    """
    best: tuple[int, int, Scheduled] | None = None
    failure: CapacityExceeded | None = None
    for computes, activations, coalesce in _candidates(kernels, storages, target, capacity_bytes, optimize):
        try:
            found = _place(kernels, computes, activations, coalesce, capacity_bytes, optimize)
        except CapacityExceeded as error:
            if failure is None or error.needed_bytes < failure.needed_bytes:
                failure = error
            continue
        cycles = judge(found.plan)
        key = (cycles, found.peak_bytes) if optimize == "latency" else (found.peak_bytes, cycles)
        LOG.info("candidate: %d cycles, peak %d bytes", cycles, found.peak_bytes)
        if best is None or key < best[:2]:
            best = (*key, found)
    if best is None:
        raise _does_not_fit(failure, capacity_bytes)
    return best[2]


def _candidates(
    kernels: Sequence[Kernel], storages: Mapping[str, Storage], target: Target, capacity_bytes: int, optimize: str
) -> Iterator[tuple[list[Compute], list[Live], int]]:
    seen: set[tuple[Group, ...]] = set()
    total = sum(aligned(kernel.parameters.n_bytes) for kernel in kernels)
    blocks: dict[tuple[object, ...], tuple[int, int, int]] = {}
    for reserve in RESERVES:
        room = capacity_bytes - int(reserve * min(total, capacity_bytes))
        groups = choose_groups(kernels, storages, room if optimize == "latency" else room // 16)
        if tuple(groups) in seen:
            continue
        seen.add(tuple(groups))
        steps, owner = expand_all(kernels, groups)
        computes, spans = _compute_tasks(kernels, groups, steps, owner, target, capacity_bytes, blocks)
        lives = _over_tasks(live_ranges(kernels, storages, groups, steps, owner), spans)
        for coalesce in COALESCE_BYTES:
            yield computes, lives, coalesce


def _compute_tasks(
    kernels: Sequence[Kernel],
    groups: Sequence[Group],
    steps: Sequence[Step],
    owner: Sequence[int],
    target: Target,
    capacity_bytes: int,
    blocks: dict[tuple[object, ...], tuple[int, int, int]],
) -> tuple[list[Compute], list[range]]:
    """Compute tasks of all steps, and the task positions of each step."""
    whole = {step.kernel for step, of in zip(steps, owner, strict=True) if groups[of].stripes == 1}
    order = list(dict.fromkeys(step.kernel for step in steps))
    candidates = []
    for i in order:
        limit = capacity_bytes // 8 if i in whole else capacity_bytes
        found = tilings(kernels[i], target, limit, range(kernels[i].space[1]))
        candidates.append(found if i in whole else found[:1])
    chosen = choose_tiles([kernels[i] for i in order], candidates)
    channels = {i: tiling.channels for i, tiling in zip(order, chosen, strict=True)}
    tasks: list[Compute] = []
    spans = []
    for step in steps:
        part = tile_tasks(kernels[step.kernel], step.y, channels[step.kernel], target, blocks)
        spans.append(range(len(tasks), len(tasks) + len(part)))
        tasks += part
    return tasks, spans


def _over_tasks(lives: Sequence[Live], spans: Sequence[range]) -> list[Live]:
    if not spans:
        return [replace(live, first=0, last=0) for live in lives]
    return [replace(live, first=spans[live.first].start, last=spans[live.last].stop - 1) for live in lives]


def _place(
    kernels: Sequence[Kernel],
    computes: list[Compute],
    lives: Sequence[Live],
    coalesce: int,
    capacity_bytes: int,
    optimize: str,
) -> Scheduled:
    uses = pack_buffers(kernels, computes, coalesce)
    live = profile(lives, len(computes))
    room = capacity_bytes
    for _ in range(6):
        positions = place_loads(uses, live, room)
        if positions is None or optimize == "memory":
            positions = [use.first for use in uses]
        problem = _problem(computes, uses, positions, lives, capacity_bytes)
        try:
            placement = allocate(problem)
        except CapacityExceeded:
            if all(position == use.first for position, use in zip(positions, uses, strict=True)):
                raise
            room -= capacity_bytes // 32
            continue
        tasks = interleave(computes, uses, positions)
        buffers = [Buffer(item.name, "activation", item.n_bytes, item.ring_rows) for item in lives]
        buffers += [use.buffer for use in uses]
        placed = tuple(replace(buffer, address=placement.offsets[buffer.name]) for buffer in buffers)
        plan = Plan({kernel.node: kernel for kernel in kernels}, placed, tuple(tasks))
        return Scheduled(plan, placement.peak_bytes, placement.bound_bytes, placement.status)
    raise CapacityExceeded(capacity_bytes, allocate(replace(problem, capacity_bytes=None)), ())


def _problem(
    computes: Sequence[Compute],
    uses: Sequence[ParameterUse],
    positions: Sequence[int],
    lives: Sequence[Live],
    capacity_bytes: int,
) -> Problem:
    """Live ranges over program order: loads count as tasks."""
    tasks = interleave(computes, uses, positions)
    at = [i for i, task in enumerate(tasks) if isinstance(task, Compute)] or [0]
    loads = {task.buffer: i for i, task in enumerate(tasks) if isinstance(task, Load)}
    ranges = [
        Range(item.name, 0 if item.first == 0 else at[item.first], at[item.last] + 1, aligned(item.n_bytes), 16)
        for item in lives
    ]
    ranges += [
        Range(use.buffer.name, loads[use.buffer.name], at[use.last] + 1, aligned(use.buffer.n_bytes), 16)
        for use in uses
    ]
    return Problem(tuple(ranges), capacity_bytes)


def _does_not_fit(failure: CapacityExceeded | None, capacity_bytes: int) -> DoesNotFit:
    if failure is None:
        return DoesNotFit(f"nothing to schedule within {capacity_bytes} bytes", stage="schedule")
    live = ", ".join(f"{name} {size}" for name, size in sorted(failure.live, key=lambda item: (-item[1], item[0]))[:6])
    return DoesNotFit(
        f"needs {failure.needed_bytes} bytes of sram, available {capacity_bytes}, "
        f"excess {failure.needed_bytes - capacity_bytes}; live at the peak: {live}",
        stage="schedule",
        hint=f"compile with --sram {failure.needed_bytes}, or choose a target with more sram",
    )
