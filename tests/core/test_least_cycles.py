"""The least cycles of kernels beside what random cuts of them into instructions and blocks ask of the machine."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.target import Target
from isa.target_file import load_target
from isa.timing import Work, block_fits, work_of
from isa.timing.geometry import WORD_BYTES
from npuc.compiler import Options, _lowered
from npuc.emit.kernel_need import MIXES, Floats, coded_bits, least_cycles
from npuc.graph.graph import Graph
from npuc.lower.coding import WeightCoder
from npuc.lower.kernel import ChannelGroup, Kernel, Parameters
from npuc.schedule.blocks import Request, request_columns
from npuc.task.task import Compute
from tests.core.random_networks import networks
from tests.core.test_certificate import image, pointwise

TARGETS = ("edge-256", "u55-like", "edge-64", "edge-128", "u55-like-mram", "edge-256-mram", "soc-1k")
EXAMPLES = 12


def cut(extent: range, step: int, rng: Random) -> Iterator[range]:
    """Neighbouring ranges of multiples of `step`, the last one shorter where it must be."""
    start = extent.start
    while start < extent.stop:
        stop = min(extent.stop, start + step * rng.randint(1, max(len(extent) // step, 1)))
        yield range(start, stop)
        start = stop


def random_tasks(kernel: Kernel, lanes: int, rng: Random) -> Iterator[Compute]:
    """The kernel in rectangles, each cut into blocks of its own."""
    n, height, width, channels = kernel.space
    for group in kernel.groups or (ChannelGroup(0, channels, 0, 1),):
        whole = range(group.start, group.stop)
        step = len(whole) if kernel.fixed_channels else lanes
        for c in cut(whole, step, rng):
            for y in cut(range(height), 1, rng):
                block = (rng.randint(1, 16), rng.randint(1, 16), 8 * rng.randint(1, max(-(-len(c) // 8), 1)))
                k = range(group.k, group.k + group.k_channels)
                for batch in range(n):
                    yield Compute(kernel.node, kernel.mnemonic, batch, y, range(width), c, k, block)


def used(work: Work, kernel: Kernel, target: Target) -> Floats:
    """Cycles [instructions, resources] for which these instructions of one kernel keep each resource busy."""
    board = target.board
    read = work.read_words * WORD_BYTES / board.sram_read_bytes_per_cycle
    first_read = work.first_read_words * WORD_BYTES / board.sram_read_bytes_per_cycle
    write = work.write_words * WORD_BYTES / (board.sram_write_bytes_per_cycle or board.sram_read_bytes_per_cycle)
    flash, first_flash = (n / board.flash_bytes_per_cycle for n in (work.flash_bytes, work.first_flash_bytes))
    if board.sram_shared_port:
        read, write = read + write, np.zeros_like(write)
    unit = np.maximum.reduce([work.compute, work.output, read - first_read, write, flash - first_flash])
    none = np.zeros_like(unit)
    return np.column_stack([*((unit, none) if kernel.is_mac else (none, unit)), read, write, flash])


def random_work(kernel: Kernel, target: Target, rng: Random) -> Work | None:
    """Of the kernel cut at random; None where no such block fits the buffers."""
    tasks = list(random_tasks(kernel, target.architecture.cout_lanes, rng))
    columns = request_columns([Request(kernel, task, streamed=rng.random() < 0.3) for task in tasks])
    if kernel.is_mac:
        for shrink in range(9):
            blocks = np.array([task.block for task in tasks]) >> shrink
            for i, name in enumerate(("block_h", "block_w", "block_c")):
                columns[name] = np.maximum(blocks[:, i] // (8 if i == 2 else 1), 1)
            if block_fits(columns, target).all():
                return work_of(columns, target)
        return None
    return work_of(columns, target)


@pytest.mark.parametrize("accumulators", [1, 16])
@pytest.mark.parametrize("target_name", TARGETS)
def test_no_cut_into_instructions_and_blocks_takes_less(target_name: str, accumulators: int) -> None:
    whole = load_target(target_name)
    costs = replace(whole.costs, accumulator_bytes=whole.costs.accumulator_bytes // accumulators)
    target = replace(whole, costs=costs)

    @settings(max_examples=EXAMPLES)
    @given(graph=networks(), seed=st.integers(0, 1 << 16))
    def check(graph: Graph, seed: int) -> None:
        rng = Random(seed)
        kernels = [kernel for kernel in _lowered(graph, None, Options(target))[2].kernels if kernel.arm is None]
        kernel_of, least = least_cycles(kernels, target)
        for i, kernel in enumerate(WeightCoder(kernels).whole()):
            work = random_work(kernel, target, rng)
            if work is not None and kernel.mnemonic != "dma.fill":
                taken = used(work, kernel, target).sum(axis=0)
                assert (least[kernel_of == i].sum(axis=0) <= MIXES @ taken + 1e-6).all(), kernel

    check()


@pytest.mark.parametrize("n_lanes", [1, 4])
def test_coded_weights_are_never_fewer_bytes_than_they_are_taken_to_be(n_lanes: int) -> None:
    rng = np.random.default_rng(n_lanes)
    for spread in (0.3, 1, 3, 10, 40):
        weights = rng.normal(0, spread, 32 * 144).round().clip(-128, 127).astype(np.int8).tobytes()
        raw = pointwise(weights, ofm=image("y", 32), groups=(ChannelGroup(0, 32, 0, 16),),
                        parameters=Parameters(weights=weights, weight_channel_bytes=144))  # fmt: skip
        cuts = tuple((c, c + 8 * n_lanes) for c in range(0, 32, 8 * n_lanes))
        stored = WeightCoder([raw]).code(raw.node, cuts).parameters
        assert 8 * len(stored.weights) >= coded_bits(raw, 8).sum() > 0
