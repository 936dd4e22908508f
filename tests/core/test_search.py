"""The search: what it remembers equals what it would work out, and more memory is never worse."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isa.codec import decode_program
from isa.instructions import BY_MNEMONIC, Queue
from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.emit.judge import stream_timeline
from npuc.emit.plan_judge import Judge
from npuc.emit.stream import emit_stream
from npuc.errors import DoesNotFit, NpucError
from npuc.graph.graph import Graph
from npuc.legalize import legalize
from npuc.lower.kernel import Kernel
from npuc.partition import Partition, partition
from npuc.schedule import storages_of
from npuc.schedule.candidate import least, most, proven
from npuc.schedule.group_peaks import GroupPeaks
from npuc.schedule.memory import expand_all, live_ranges, profile
from npuc.schedule.plan import Search, _Run, rungs, schedule
from npuc.schedule.policy import POLICIES
from npuc.schedule.stripes import Group, StripeBook
from npuc.schedule.tile_model import TILE_STREAM_BYTES, choose_tiles
from npuc.schedule.tiles import Tiling
from npuc.task.task import Plan
from tests.core.random_networks import channelwise_networks, networks
from tests.verify.networks import compile_for, conv_add_softmax

TARGET = load_target("edge-64")


def parted(graph: Graph) -> Partition:
    try:
        return partition(legalize(graph, TARGET), TARGET)
    except NpucError:
        assume(False)
        raise


@given(graph=networks() | channelwise_networks(), data=st.data())
def test_peak_of_a_group_is_that_of_the_whole_network_while_it_runs(graph: Graph, data: st.DataObject) -> None:
    part = parted(graph)
    storages = storages_of(part.graph, part.kernels)
    book = StripeBook(part.kernels)
    groups: list[Group] = []
    while (start := groups[-1].stop if groups else 0) < len(part.kernels):
        stop = data.draw(st.integers(start + 1, min(start + 4, len(part.kernels))))
        if book.slices.can_slice(start, stop) and data.draw(st.booleans()):
            groups.append(Group(start, stop, channels=8))
            continue
        can_stripe = stop - start > 1 and all(kernel.spatial for kernel in part.kernels[start:stop])
        stripes, spare = (data.draw(st.integers(2, 5)), data.draw(st.integers(0, 2))) if can_stripe else (1, 0)
        groups.append(Group(start, stop, stripes, spare=spare))
    assume(groups)
    steps, owner = expand_all(book, groups)
    live = profile(live_ranges(book, storages, groups, steps, owner), len(steps))
    peaks = GroupPeaks(book, storages)
    for i, group in enumerate(groups):
        assert peaks.of(group) == max(int(n) for n, of in zip(live, owner, strict=True) if of == i)


@settings(max_examples=30)
@given(
    graph=networks() | channelwise_networks(),
    policy=st.sampled_from(sorted(POLICIES)),
    target=st.sampled_from(["edge-256", "u55-like"]),
)
def test_judge_counts_the_cycles_of_the_emitted_program(graph: Graph, policy: str, target: str) -> None:
    machine = load_target(target)
    try:
        part = partition(legalize(graph, machine), machine)
    except NpucError:
        assume(False)
        raise
    judge = Judge(machine)

    def both(plan: Plan) -> int:
        cycles = judge.cycles(plan)
        assert cycles == stream_timeline(emit_stream(plan, machine), machine).total_cycles
        return cycles

    storages = storages_of(part.graph, part.kernels)
    schedule(Search(part.kernels, storages, machine, machine.board.sram_bytes, both, POLICIES[policy]))


@settings(max_examples=20)
@given(graph=networks())
def test_descriptors_that_wait_do_so_for_loads_that_instructions_before_them_need(graph: Graph) -> None:
    part = parted(graph)
    plan = schedule(
        Search(part.kernels, storages_of(part.graph, part.kernels), TARGET, 1 << 20, Judge(TARGET).cycles)
    ).plan
    code = decode_program(bytes(emit_stream(replace(plan, descriptors_wait=True), TARGET).code))
    needed = reached = 0
    for opcode, queues, counts in zip(code.opcode, code.wait_queue, code.wait_count, strict=True):
        loads = [int(count) for queue, count in zip(queues, counts, strict=True) if queue == Queue.DMA_IN]
        if opcode == BY_MNEMONIC["desc.load"].opcode:
            assert loads == ([needed] if needed > reached else [])
            reached = needed
        needed = max([needed, *loads])


@settings(max_examples=20)
@given(graph=networks() | channelwise_networks(), target=st.sampled_from(["edge-256", "u55-like"]))
def test_more_memory_never_makes_a_program_slower(graph: Graph, target: str) -> None:
    machine = load_target(target)
    least = compile_model(graph, None, Options(machine, optimize="memory")).report["sram"]["peak_bytes"]
    previous = None
    for budget in sorted({*np.geomspace(least, 4 * least + 64, 6).astype(int).tolist(), 1 << 20}):
        report = compile_model(graph, None, Options(machine, budget)).report
        assert report["sram"]["peak_bytes"] <= budget
        assert previous is None or report["cycles"]["predicted"] <= previous
        previous = report["cycles"]["predicted"]


@settings(max_examples=20)
@given(graph=networks(), sixteenths=st.integers(16, 48))
def test_the_fastest_is_that_of_all_candidates_with_their_proofs(graph: Graph, sixteenths: int) -> None:
    part, judge = parted(graph), Judge(TARGET).cycles
    search = Search(part.kernels, storages_of(part.graph, part.kernels), TARGET, 1 << 40, judge)
    smallest = _Run(search).smallest()
    run = _Run(replace(search, capacity_bytes=smallest.peak_bytes * sixteenths // 16))
    best, costs = run.fastest(smallest), [smallest.cost]
    for candidate in run.judged.values():
        found = proven(candidate, judge)
        assert found is candidate or (found.is_optimal and found.peak_bytes <= candidate.peak_bytes)
        assert least(candidate.cost) <= found.cost <= most(candidate.cost)
        costs += [found.cost] if candidate.peak_bytes <= run.search.capacity_bytes else []
    assert best.cost == min(costs)


def test_too_little_memory_names_the_smallest_that_is_enough() -> None:
    least = compile_for(conv_add_softmax(), optimize="memory").report["sram"]["peak_bytes"]
    assert compile_for(conv_add_softmax(), sram_bytes=least).report["sram"]["peak_bytes"] == least
    with pytest.raises(DoesNotFit) as failure:
        compile_for(conv_add_softmax(), sram_bytes=least - 1)
    assert f"needs {least} bytes of sram, available {least - 1}, excess 1; live at the peak: " in failure.value.message
    assert failure.value.hint == f"compile with --sram {least}, or choose a target with more sram"


@given(least=st.integers(16, 1 << 20).map(lambda n: n // 16 * 16), more=st.lists(st.integers(0, 1 << 20), min_size=2))
def test_a_larger_budget_has_every_capacity_of_a_smaller_one(least: int, more: list[int]) -> None:
    others = [least + 16 * n for n in more[:3]]
    ladders = [rungs(least, least + n, others) for n in sorted(more)]
    for smaller, larger in itertools.pairwise(ladders):
        assert set(smaller) <= set(larger)
        assert larger == sorted(larger, reverse=True)
        assert larger[-1] == least


def test_tilings_are_those_with_which_the_last_kernel_ends_first() -> None:
    kernels = compile_kernels()
    rng = np.random.default_rng(7)
    for _ in range(50):
        candidates = [
            [
                Tiling(8, int(n), int(rng.integers(1, 400)), bool(rng.integers(2)), *rng.integers(1, (900, 90)))
                for n in sizes
            ]
            for sizes in rng.integers(1, 5, (len(kernels), 3))
        ]
        best = min(end_of(kernels, choice) for choice in itertools.product(*candidates))
        assert end_of(kernels, choose_tiles(kernels, candidates, 1)) == best


def compile_kernels() -> list[Kernel]:
    """A few kernels, most of them with parameters."""
    return partition(legalize(conv_add_softmax(), TARGET), TARGET).kernels[:5]


def end_of(kernels: list[Kernel], tilings: Sequence[Tiling]) -> int:
    """When the last kernel ends, by the model of `choose_tiles`, at one byte of flash a cycle."""
    arrived = ended = 0
    for kernel, tiling in zip(kernels, tilings, strict=True):
        busy = tiling.n_tiles * tiling.tile_cycles + tiling.load_cycles
        if tiling.streamed:
            arrived += tiling.flash_bytes
            ended = max(ended + busy, arrived)
            continue
        weights = len(kernel.parameters.weights)
        arrived += kernel.parameters.head_bytes
        first = weights * min(tiling.channels, kernel.space[3]) // kernel.space[3]
        ended = max(ended + busy, arrived + first + busy, arrived + weights + tiling.tile_cycles)
        stream = TILE_STREAM_BYTES if kernel.parameters.n_bytes else BY_MNEMONIC[kernel.mnemonic].length_bytes
        arrived += weights + stream * tiling.n_tiles
    return ended
