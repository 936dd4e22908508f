"""Kernels that run beside each other on ranges of rows: the same bytes, in an order that fits what they read."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.instructions import Queue
from isa.target import Rate, Target
from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.emit.plan_judge import Judge
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import QuantParams, TensorType
from npuc.lower.kernel import Kernel
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.pool import QMaxPool
from npuc.ops.window import Window
from npuc.partition import Partition
from npuc.schedule import storages_of
from npuc.schedule.draft import Draft, Drafter
from npuc.schedule.interleave import moved
from npuc.schedule.parameters import earliest, pack_buffers
from npuc.schedule.place import Placed, place
from npuc.schedule.plan import Search, schedule
from npuc.schedule.policy import POLICIES, SEARCH, Policy
from npuc.schedule.ranges import with_spare
from npuc.schedule.stripes import Group
from npuc.task.task import Compute
from npuc.task.text import Scheduled, format_plan, parse_plan
from npuc.verify import verify_program
from simulator.machine import Machine
from simulator.program import load
from tests.core.random_networks import networks, parted, random_inputs

ROOM = 1 << 20


def slow(name: str) -> Target:
    """A machine whose units are so slow that even small kernels had better run beside each other."""
    target = load_target(name)
    rate = Rate(1, 16)
    costs = replace(
        target.costs, mac_step_cycles=64, vector_add=rate, vector_mul=rate, vector_table=rate, vector_pool=rate,
        vector_copy=rate, vector_reduce=rate,
    )  # fmt: skip
    return replace(target, costs=costs, board=replace(target.board, flash_bytes_per_cycle=64))


def drafted(part: Partition, target: Target, groups: list[Group], streamed: frozenset[str]) -> list[Draft]:
    """Without ranges, and with them."""
    drafter = Drafter(part.kernels, storages_of(part.graph, part.kernels), target, SEARCH)
    return [drafter.draft(groups, streamed, 1 << 12, may_stream=False, in_ranges=ranged) for ranged in (False, True)]


def placed(draft: Draft, target: Target) -> Placed:
    uses = pack_buffers(draft.needs, *SEARCH.buffers[0])
    return place(draft, uses, earliest(uses, draft.computes, SEARCH), ROOM, target)


@st.composite
def groupings(draw: st.DrawFn, kernels: list[Kernel]) -> list[Group]:
    """Mostly kernels that run alone."""
    groups: list[Group] = []
    while (start := groups[-1].stop if groups else 0) < len(kernels):
        stop = min(start + draw(st.sampled_from((1, 1, 1, 2, 3))), len(kernels))
        spatial = stop - start > 1 and all(kernel.spatial for kernel in kernels[start:stop])
        stripes, spare = draw(st.integers(2, 4)), draw(st.integers(0, 1))
        groups.append(Group(start, stop, stripes, spare=spare) if spatial else Group(start, start + 1))
    return groups


@settings(max_examples=80)
@given(graph=networks(), name=st.sampled_from(["edge-64", "u55-like", "edge-256"]), data=st.data())
def test_networks_in_ranges_equal_their_reference(graph: Graph, name: str, data: st.DataObject) -> None:
    target = slow(name)
    part = parted(graph, target)
    streamed = frozenset(kernel.owner for kernel in part.kernels if data.draw(st.integers(0, 4)) == 0)
    plain, ranged = drafted(part, target, data.draw(groupings(part.kernels)), streamed)
    for queue in Queue:
        assert list(dict.fromkeys(_kernels(plain, queue))) == list(dict.fromkeys(_kernels(ranged, queue)))
    found = placed(ranged, target)
    text = format_plan(Scheduled(found.plan, found.placement.peak_bytes, 0, "feasible"))
    assert format_plan(parse_plan(text, part.kernels)) == text
    compiled = compile_model(graph, None, Options(target, sram_bytes=ROOM, schedule=text))
    verdict = verify_program(compiled.program, compiled.debug_map, sram_bytes=ROOM)
    assert verdict.ok, (verdict.races + verdict.findings)[0].message
    inputs = random_inputs(graph, 0)
    expected = evaluate(graph, inputs)
    got = Machine(load(compiled.program), ROOM, strict=True).run(inputs)
    for output in graph.outputs:
        assert np.array_equal(got[output], expected[output]), output


def _kernels(draft: Draft, queue: Queue) -> list[str]:
    return [task.kernel for task in draft.computes if task.queue == queue]


def conv_and_pool() -> Graph:
    """A convolution, which the array computes, and a pool of its result, which the vector unit does."""
    rng = np.random.default_rng(0)
    constants = {"w": rng.integers(-127, 128, (32, 32, 3, 3), np.int8), "b": np.zeros(32, np.int32)}
    values = {"x": TensorType("int8", (1, 32, 32, 32), QuantParams(0.05, 0))}
    values |= {name: TensorType(array.dtype.name, array.shape) for name, array in constants.items()}  # type: ignore[arg-type]
    window = Window((3, 3), pads=(1, 1, 1, 1))
    conv = QConv(window, 1, 0, 0, (1 << 30,) * 32, (42,) * 32, True, (-128, 127))
    pool = QMaxPool(Window((3, 3), stride=(1, 1)), (-128, 127))
    values["y"] = replace(conv.infer(values["x"], values["w"], values["b"])[0], quant=QuantParams(0.05, 0))
    values["z"] = replace(pool.infer(values["y"])[0], quant=QuantParams(0.05, 0))
    nodes = (Node("conv", conv, ("x", "w", "b"), ("y",), ("conv",)), Node("pool", pool, ("y",), ("z",), ("pool",)))
    return verify(Graph("pair", nodes, values, constants, ("x",), ("z",)))


def alone(part: Partition) -> list[Group]:
    return [Group(i, i + 1) for i in range(len(part.kernels))]


def test_a_reader_starts_while_its_producer_runs() -> None:
    target = load_target("u55-like")
    part = parted(conv_and_pool(), target)
    plain, ranged = (placed(draft, target).plan for draft in drafted(part, target, alone(part), frozenset()))
    assert Judge(target).cycles(ranged) < Judge(target).cycles(plain)
    order = [task.kernel for task in ranged.tasks if isinstance(task, Compute)]
    assert order.index("pool") < len(order) - 1 - order[::-1].index("conv")


def test_weights_in_flash_are_not_read_again_for_ranges() -> None:
    target = load_target("u55-like")
    part = parted(conv_and_pool(), target)
    plain, ranged = drafted(part, target, alone(part), frozenset({"conv"}))
    assert plain.computes == ranged.computes


def test_kernels_stay_whole_where_ranges_do_not_pay() -> None:
    """A port that both units need all the time does not give more to two of them."""
    target = load_target("u55-like")
    narrow = replace(target, board=replace(target.board, sram_read_bytes_per_cycle=1))
    part = parted(conv_and_pool(), narrow)
    plain, ranged = drafted(part, narrow, alone(part), frozenset())
    assert plain.computes == ranged.computes


def test_only_the_search_runs_kernels_beside_each_other() -> None:
    shared = load_target("u55-like")
    target = replace(shared, board=replace(shared.board, sram_shared_port=False, sram_write_bytes_per_cycle=8))
    part = parted(conv_and_pool(), target)
    cycles = {}
    for name, policy in {**POLICIES, "in order": replace(SEARCH, in_ranges=False)}.items():
        is_ordered, cycles[name] = searched(part, target, policy)
        assert is_ordered == (name != "search")
    assert cycles["search"] < min(cycles["in order"], cycles["greedy"], cycles["layerwise"])


def test_kernels_that_share_a_port_run_one_after_the_other() -> None:
    target = load_target("u55-like")
    assert searched(parted(conv_and_pool(), target), target, SEARCH)[0]


def searched(part: Partition, target: Target, policy: Policy) -> tuple[bool, int]:
    """Whether the tasks of each kernel follow each other, and the cycles."""
    storages, judge = storages_of(part.graph, part.kernels), Judge(target).cycles
    plan = schedule(Search(part.kernels, storages, target, ROOM, judge, policy)).plan
    order = [task.kernel for task in plan.tasks if isinstance(task, Compute)]
    return order == sorted(order), judge(plan)


def test_a_line_buffer_with_a_spare_stripe_lets_both_units_run() -> None:
    target = load_target("u55-like")
    part = parted(conv_and_pool(), target)
    striped = [Group(0, 2, 8), Group(2, len(part.kernels))]
    spared = list(with_spare(part.kernels, striped))
    assert spared == [replace(striped[0], spare=1), striped[1]]
    plans = [placed(drafted(part, target, groups, frozenset())[0], target).plan for groups in (striped, spared)]
    rings = [plan.buffer["y"].ring_rows for plan in plans]
    assert 0 < rings[0] < rings[1] < 32
    assert Judge(target).cycles(plans[1]) < Judge(target).cycles(plans[0])


def test_only_groups_of_several_units_have_a_spare_stripe() -> None:
    target = load_target("u55-like")
    kernels = parted(conv_and_pool(), target).kernels
    groups = (Group(0, 1, 2), Group(1, 2))
    assert with_spare(kernels, groups) == groups
    both = Group(0, 2, 3)
    assert with_spare(kernels, (both,), 2) == (Group(0, 2, 6, spare=1),)


def test_spans_cover_what_is_touched_before_and_behind_them() -> None:
    assert moved([range(2), range(2, 4), range(4, 5)], [0, 2, 1, 3, 4]) == [range(3), range(1, 4), range(4, 5)]
    assert moved([range(2), range(2, 3)], [0, 2, 1]) == [range(3), range(1, 3)]
