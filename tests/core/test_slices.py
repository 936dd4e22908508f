"""Groups that run slice by slice of their channels: the same bytes, in less memory; and windows that cannot be."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.target import Target
from isa.target_file import load_target
from npuc.allocation import CapacityExceeded
from npuc.compiler import Options, compile_model
from npuc.errors import DoesNotFit
from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, QuantParams, TensorType
from npuc.lower.kernel import Kernel
from npuc.ops.integer.conv import QConv
from npuc.ops.window import Window
from npuc.partition import Partition
from npuc.schedule import storages_of
from npuc.schedule.draft import Draft, Drafter
from npuc.schedule.parameters import earliest, needed_bytes, pack_buffers
from npuc.schedule.place import Placed, place
from npuc.schedule.policy import SEARCH
from npuc.schedule.slices import SliceBook
from npuc.schedule.stripes import Group, StripeBook
from npuc.task.task import Compute
from npuc.task.text import Scheduled, format_plan, parse_plan
from npuc.task.windows import window_problem
from npuc.verify import verify_program
from simulator.machine import Machine
from simulator.program import load
from simulator.strict import check
from tests.core.random_networks import channelwise_networks, parted, random_inputs

WINDOWS = {"edge-64": (8,), "u55-like": (8, 16, 32), "edge-256": (16, 32)}
"""Channels of a slice: multiples of the output channels that a machine computes at once."""


def sliced_groups(data: st.DataObject, part: Partition, channels: Sequence[int]) -> list[Group]:
    """Groups of neighbours; those that can run in slices mostly do."""
    book, groups = SliceBook(part.kernels), list[Group]()
    while (start := groups[-1].stop if groups else 0) < len(part.kernels):
        stops = [i for i in range(start + 1, len(part.kernels) + 1) if book.can_slice(start, i)]
        if data.draw(st.integers(0, 4)) and stops:
            stop = data.draw(st.sampled_from(stops))
            groups.append(Group(start, stop, channels=data.draw(st.sampled_from(channels))))
        else:
            groups.append(Group(start, start + 1))
    return groups


def placed(data: st.DataObject, draft: Draft, target: Target) -> Placed:
    """In little more memory than it needs, so that loads come late."""
    smallest, largest = data.draw(st.sampled_from(SEARCH.buffers))
    uses = pack_buffers(draft.needs, smallest, largest)
    limits = earliest(uses, draft.computes, SEARCH)
    for room in (needed_bytes(uses, draft.live) * data.draw(st.integers(16, 32)) // 16, 1 << 20):
        try:
            return place(draft, uses, limits, room, target)
        except CapacityExceeded:
            continue
    raise AssertionError("a megabyte is enough")


@settings(max_examples=60)
@given(graph=channelwise_networks(), name=st.sampled_from(sorted(WINDOWS)), data=st.data())
def test_sliced_networks_equal_their_reference(graph: Graph, name: str, data: st.DataObject) -> None:
    target = load_target(name)
    part = parted(graph, target)
    groups = sliced_groups(data, part, WINDOWS[name])
    drafter = Drafter(part.kernels, storages_of(part.graph, part.kernels), target, SEARCH)
    streamed = {kernel.owner for kernel in part.kernels if data.draw(st.booleans())}
    draft = drafter.draft(groups, streamed, 1 << 12, may_stream=data.draw(st.booleans()))
    assert int(draft.live.max()) == max(map(drafter.peaks.of, groups))
    found = placed(data, draft, target)
    text = format_plan(Scheduled(found.plan, found.placement.peak_bytes, 0, "feasible"))
    assert format_plan(parse_plan(text, part.kernels)) == text
    compiled = compile_model(graph, None, Options(target, sram_bytes=1 << 20, schedule=text))
    verdict = verify_program(compiled.program, compiled.debug_map, sram_bytes=1 << 20)
    assert verdict.ok, (verdict.races + verdict.findings)[0].message
    inputs = random_inputs(graph, 0)
    expected = evaluate(graph, inputs)
    got = Machine(load(compiled.program), 1 << 20, strict=True).run(inputs)
    for output in graph.outputs:
        assert np.array_equal(got[output], expected[output]), output


@given(graph=channelwise_networks(), channels=st.sampled_from((8, 16)), data=st.data())
def test_a_window_holds_a_slice_until_it_is_read(graph: Graph, channels: int, data: st.DataObject) -> None:
    part = parted(graph, load_target("edge-64"))
    book = StripeBook(part.kernels)
    for group in sliced_groups(data, part, [channels]):
        held: dict[str, range] = {}
        for step in book.steps(group):
            kernel = part.kernels[step.kernel]
            for storage in kernel.reads:
                if book.window(group, storage):
                    assert held[storage] == step.c
            held[kernel.ofm.storage] = step.c


CONV, DEPTHWISE = "n0", "n1"


@pytest.fixture(scope="module")
def pair() -> tuple[str, list[Kernel], Graph]:
    """A convolution to 32 channels and a depthwise one behind it, in slices of 16."""
    rng = np.random.default_rng(0)
    values = {"x": TensorType("int8", (1, 8, 6, 5), QuantParams(0.05, 3))}
    constants: dict[str, Array] = {}
    nodes = []
    for number, (source, shape, groups) in enumerate((("x", (32, 8, 1, 1), 1), ("v0", (32, 1, 3, 3), 32))):
        names = f"w{number}", f"b{number}"
        constants |= {names[0]: rng.integers(-127, 128, shape, np.int8), names[1]: np.zeros(32, np.int32)}
        values |= {name: TensorType(constants[name].dtype.name, constants[name].shape) for name in names}  # type: ignore[arg-type]
        op = QConv(Window(shape[2:]), groups, 3, 3, (1 << 30,) * 32, (38,) * 32, True, (-128, 127))
        inputs = (source, *names)
        kind = op.infer(*(values[name] for name in inputs))[0]
        values[f"v{number}"] = TensorType(kind.dtype, kind.shape, QuantParams(0.05, 3))
        nodes.append(Node(f"n{number}", op, inputs, (f"v{number}",), (f"n{number}",)))
    graph = verify(Graph("pair", tuple(nodes), values, constants, ("x",), ("v1",)))
    part, target = parted(graph, load_target("u55-like")), load_target("u55-like")
    drafter = Drafter(part.kernels, storages_of(part.graph, part.kernels), target, SEARCH)
    nodes_of = [kernel.node for kernel in part.kernels]
    first = nodes_of.index(CONV)
    cut = [Group(i, i + 1) for i in range(len(nodes_of))]
    cut[first : first + 2] = [Group(first, first + 2, channels=16)]
    draft = drafter.draft(cut, set(nodes_of), 0, may_stream=False)
    found = place(draft, [], [], 1 << 20, target)
    return format_plan(Scheduled(found.plan, found.placement.peak_bytes, 0, "feasible")), part.kernels, graph


def test_slices_of_a_hand_written_schedule_are_exact(pair: tuple[str, list[Kernel], Graph]) -> None:
    text, _, graph = pair
    assert f'buffer "v0" activation bytes={6 * 5 * 16} ring=0 window=16 at=' in text
    order = [(task.kernel, task.c) for task in parse_plan(text, pair[1]).plan.tasks if isinstance(task, Compute)]
    sliced = [item for item in order if item[0] in (CONV, DEPTHWISE)]
    assert sliced == [(node, range(c, c + 16)) for c in (0, 16) for node in (CONV, DEPTHWISE)]
    compiled = compile_model(graph, None, Options(load_target("u55-like"), schedule=text))
    inputs = random_inputs(graph, 1)
    got = Machine(load(compiled.program), 1 << 20, strict=True).run(inputs)
    assert np.array_equal(got["v1"], evaluate(graph, inputs)["v1"])
    assert next(row for row in compiled.debug_map["tensors"] if row["name"] == "v0")["strides"] == [0, 1, 5 * 16, 16]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("bytes=480 ring=0 window=16", "bytes=480 ring=0 window=32", "480 bytes, needs 960"),
        ("ring=0 window=16", "ring=0 window=24", "24 channels and 0 rows, allowed: a power of two up to 64, no rows"),
        ("ring=0 window=16", "ring=2 window=16", "16 channels and 2 rows, allowed"),
        ("ring=0 window=16", "ring=0 window=8", "channels 0:16 of n0 are not in one slice"),
    ],
)
def test_windows_that_cannot_be_are_refused(
    pair: tuple[str, list[Kernel], Graph], old: str, new: str, reason: str
) -> None:
    text, kernels, _ = pair
    with pytest.raises(DoesNotFit, match="channel window v0: ") as failure:
        parse_plan(text.replace(old, new, 1), kernels)
    assert reason in failure.value.message


def test_a_slice_that_is_not_there_is_refused(pair: tuple[str, list[Kernel], Graph]) -> None:
    text, kernels, _ = pair
    tasks = [line for line in text.splitlines() if line.startswith((f'compute "{CONV}"', f'compute "{DEPTHWISE}"'))]
    for order in ((0, 2, 1, 3), (1, 0, 2, 3)):
        edited = text.replace("\n".join(tasks), "\n".join(tasks[i] for i in order))
        with pytest.raises(DoesNotFit, match=r"v0: n1 reads channels .*, which are not there whole"):
            parse_plan(edited, kernels)


def test_strict_mode_finds_another_slice_in_the_window(
    pair: tuple[str, list[Kernel], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, _, graph = pair
    tasks = [line for line in text.splitlines() if line.startswith((f'compute "{CONV}"', f'compute "{DEPTHWISE}"'))]
    edited = text.replace("\n".join(tasks), "\n".join(tasks[i] for i in (0, 2, 1, 3)))
    monkeypatch.setattr("npuc.task.text.check_windows", lambda plan, raw: None)
    programs = [
        load(compile_model(graph, None, Options(load_target("u55-like"), schedule=schedule)).program)
        for schedule in (text, edited)
    ]
    assert check(programs[0]) == []
    found = check(programs[1])
    assert [finding.kind for finding in found] == ["overwritten"]
    assert "reads channel block 0, which instruction " in found[0].message
    assert found[0].message.endswith("overwrote with channel block 1")


def test_what_all_channels_are_read_of_at_once_has_no_window(pair: tuple[str, list[Kernel], Graph]) -> None:
    _, kernels, _ = pair
    book = SliceBook(kernels)
    at = next(i for i, kernel in enumerate(kernels) if kernel.node == CONV)
    assert book.can_slice(at, at + 2)
    assert book.fits_window(at, at + 2, "v0")
    assert not book.fits_window(at, at + 1, "v0")
    source = kernels[at].ifm
    assert source is not None
    assert window_problem(kernels, source.storage).endswith("reads all its channels at once")
