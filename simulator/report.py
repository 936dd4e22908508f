"""The profile: every cycle of a run, every multiply and every off-chip byte, given to one layer each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isa.instructions import Queue
from isa.record import WORD_BYTES
from isa.target import Target
from isa.timing import TICKS, TickClass, Timeline, Work, energy_report
from simulator.program import Column, Program
from simulator.trace import Timing

PRIORITY = (Queue.MAC, Queue.VEC, Queue.ARM, Queue.DMA_IN, Queue.DMA_OUT)
"""While several units run, a cycle belongs to the first of these."""

UNITS = {Queue.MAC: "mac", Queue.VEC: "vector", Queue.DMA_IN: "dma", Queue.DMA_OUT: "dma", Queue.ARM: "arm"}

UNNAMED = "program"
"""Layer of a program without a debug map."""


@dataclass(frozen=True)
class Origin:
    """Where an instruction comes from: the layer, and the nodes of the source model that it computes."""

    layer: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerProfile:
    """One layer; `bytes` are off-chip, `stalls` are cycles of its main unit's queue by reason."""

    name: str
    unit: str
    sources: tuple[str, ...]
    cycles: int
    macs: int
    utilization: float
    """Multiplies over what the array could do in these cycles."""
    bytes: int
    bound_by: str
    """The resource that the main unit's instructions need for longest, waits for their loads included."""
    stalls: dict[str, int]


@dataclass(frozen=True)
class Profile:
    """A whole run; the cycles of the layers sum to `cycles`, their bytes to `offchip_bytes`."""

    cycles: int
    arm_cycles: int
    """Cycles in which the Arm core runs kernels."""
    macs: int
    utilization: float
    offchip_bytes: int
    layers: tuple[LayerProfile, ...]
    energy: dict[str, int] | None
    """Picojoules in all and by what takes them; None when the target does not say what things take."""


def profile(timing: Timing, origins: Mapping[int, Origin]) -> Profile:
    """Layers in the order of their first row.

    A row that `origins` does not name belongs to the layer of the next one that it names.
    """
    program, target, timeline = timing.program, timing.target, timing.timeline
    queue = program.queue
    n_code = len(program.code)
    owners = _owners(range(n_code), origins) + _owners(range(n_code, program.n_rows), origins)
    names = list(dict.fromkeys(origin.layer for origin in owners))
    layer_of = np.array([names.index(origin.layer) for origin in owners], np.int64)
    ticks = np.bincount(layer_of, attributed_ticks(program, timeline), len(names)).astype(np.int64)
    cycles = np.diff(-(-np.cumsum(ticks) // TICKS), prepend=0)
    macs, off_chip = timing.work.macs, offchip_bytes(timing.work)
    sources: dict[str, dict[str, None]] = {name: {} for name in names}
    for origin in owners:
        sources[origin.layer].update(dict.fromkeys(origin.sources))
    layers = []
    for i, name in enumerate(names):
        rows = layer_of == i
        n_macs, n_cycles, unit = int(macs[rows].sum()), int(cycles[i]), _main_queue(queue[rows])
        layers.append(
            LayerProfile(
                name=name,
                unit=UNITS[unit],
                sources=tuple(sources[name]),
                cycles=n_cycles,
                macs=n_macs,
                utilization=utilization(n_macs, n_cycles, target),
                bytes=int(off_chip[rows].sum()),
                bound_by=_bound_by(timing, rows, unit),
                stalls=_stalls(timeline, rows & (queue == unit)),
            )
        )
    total = timeline.total_cycles
    all_macs = int(macs.sum())
    arm_cycles, used = int(timing.work.compute[queue == Queue.ARM].sum()), utilization(all_macs, total, target)
    energy = energy_report(timing.work, total, target)
    return Profile(total, arm_cycles, all_macs, used, int(off_chip.sum()), tuple(layers), energy)


def attributed_ticks(program: Program, timeline: Timeline) -> Column:
    """[rows]: the ticks of the run that belong to each; they sum to the run's.

    A row runs from its start until it retires or its successor in the queue starts. A moment belongs to the MAC
    instruction that runs, else to the vector instruction, the Arm call, the DMA-in or DMA-out instruction; one at which
    nothing runs belongs to the next row that starts, and behind the last start to the one that retires last.
    """
    start, queue = timeline.start, program.queue
    edges = np.unique(np.concatenate([[0, timeline.total_ticks], start[start >= 0], timeline.retire[start >= 0]]))
    edges = edges[edges <= timeline.total_ticks]
    begins = edges[:-1]
    owner = np.full(len(begins), -1, np.int64)
    for unit in PRIORITY:
        rows = np.flatnonzero((queue == unit) & (start >= 0))
        if not len(rows):
            continue
        rows = rows[np.argsort(start[rows], kind="stable")]
        latest = np.searchsorted(start[rows], begins, side="right") - 1
        runs = (latest >= 0) & (begins < timeline.retire[rows[latest]])
        owner = np.where((owner < 0) & runs, rows[latest], owner)
    by_start = np.argsort(np.where(start < 0, np.iinfo(np.int64).max, start), kind="stable")
    by_start = by_start[start[by_start] >= 0]
    following = np.searchsorted(start[by_start], begins, side="left")
    heirs = np.append(by_start, timeline.retire.argmax())
    owner = np.where(owner < 0, heirs[following], owner)
    ticks = np.bincount(owner, np.diff(edges), len(start))
    return ticks.astype(np.int64)


def offchip_bytes(work: Work) -> Column:
    """[rows]: bytes of flash and dram, instructions and descriptors included; reads of kernels are not counted."""
    return work.flash_bytes + work.dram_bytes + work.stream_bytes + work.descriptor_bytes


def utilization(macs: int, cycles: int, target: Target) -> float:
    """Share of the array's multiplies that `macs` in `cycles` use."""
    return macs / (cycles * peak_macs(target)) if cycles else 0.0


def peak_macs(target: Target) -> float:
    """Multiplies a cycle of the array at its best step."""
    costs = target.costs
    products = max(channels * taps for channels, taps in costs.mac_step_taps)
    pixels = costs.mac_step_pixels_h * costs.mac_step_pixels_w
    return products * pixels * costs.mac_step_cout / costs.mac_step_cycles


def _owners(rows: range, origins: Mapping[int, Origin]) -> list[Origin]:
    named = {index: origin for index, origin in origins.items() if origin.layer and index in rows}
    following = named[max(named)] if named else Origin(UNNAMED)
    owners: list[Origin] = []
    for index in reversed(rows):
        following = named.get(index, following)
        owners.append(following)
    return owners[::-1]


def _main_queue(queues: Column) -> Queue:
    return next((queue for queue in PRIORITY if queue in queues), Queue.DMA_IN)


def _bound_by(timing: Timing, rows: Column, unit: Queue) -> str:
    """Waits for DMA-in count as use of the memory that it loads from; what runs ahead of the layer costs it nothing."""
    work, board = timing.work, timing.target.board
    own = rows & (timing.program.queue == unit)
    busy = {UNITS[unit]: int(work.compute[own].sum()), "output stage": int(work.output[own].sum())}
    reads, writes = int(work.read_words[own].sum()), int(work.write_words[own].sum())
    if board.sram_shared_port:
        busy["sram port"] = WORD_BYTES * (reads + writes) // board.sram_read_bytes_per_cycle
    else:
        busy["sram read"] = WORD_BYTES * reads // board.sram_read_bytes_per_cycle
        busy["sram write"] = WORD_BYTES * writes // board.sram_write_bytes_per_cycle
    waits = int(timing.timeline.charged[own, TickClass.CONDITION_DMA_IN].sum()) // TICKS
    for memory, amount, rate in (
        ("flash", work.flash_bytes, board.flash_bytes_per_cycle),
        ("dram", work.dram_bytes, max(board.dram_bytes_per_cycle, 1)),
    ):
        loads = int(amount[rows & ~own].sum()) // rate
        busy[memory] = int(amount[own].sum()) // rate + min(waits, loads)
    return max(busy, key=lambda name: busy[name])


def _stalls(timeline: Timeline, rows: Column) -> dict[str, int]:
    charged = timeline.charged[rows].sum(axis=0)
    return {kind.name.lower(): int(-(-charged[kind] // TICKS)) for kind in TickClass if charged[kind] and kind}
