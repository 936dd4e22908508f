"""Stripes, line buffers and loads, each simulated row by row."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from isa.target_file import load_target
from npuc.errors import NpucError
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import QuantParams, TensorType
from npuc.legalize import legalize
from npuc.lower.kernel import Kernel
from npuc.lower.operand import Operand
from npuc.ops.integer.pool import QMaxPool
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Slice
from npuc.ops.window import Window
from npuc.partition import ERROR, partition
from npuc.schedule.memory import aligned
from npuc.schedule.parameters import ParameterUse, misfits, place_loads
from npuc.schedule.stripes import Group, Step, StripeBook, expand, ring_rows
from npuc.task.task import Buffer, Part
from tests.core.random_networks import networks

TARGET = load_target("edge-64")


@st.composite
def striped(draw: st.DrawFn) -> tuple[list[Kernel], Group]:
    """Kernels of a random network and a group of neighbours that can be cut into stripes."""
    try:
        kernels = partition(legalize(draw(networks(6)), TARGET), TARGET, ERROR).kernels
    except NpucError:
        assume(False)
        raise
    runs = [(a, b) for a in range(len(kernels)) for b in range(a + 1, len(kernels) + 1)]
    runs = [(a, b) for a, b in runs if all(kernel.spatial for kernel in kernels[a:b])]
    assume(runs)
    start, stop = draw(st.sampled_from(runs))
    return kernels, Group(start, stop, draw(st.integers(2, max(2, kernels[stop - 1].space[1]))))


def rows_read(kernel: Kernel, y: range) -> Iterator[tuple[Operand, range]]:
    if kernel.ifm is not None:
        yield kernel.ifm, kernel.input_rows(y)
    if kernel.ifm2 is not None:
        yield kernel.ifm2, y if kernel.ifm2.row else range(1)


@given(case=striped())
def test_stripes_compute_every_row_once_and_read_none_before_it_is_written(case: tuple[list[Kernel], Group]) -> None:
    kernels, group = case
    done: dict[int, list[int]] = {i: [] for i in range(group.start, group.stop)}
    for step in expand(kernels, group):
        for operand, rows in rows_read(kernels[step.kernel], step.y):
            for i in done:
                if i < step.kernel and kernels[i].ofm.storage == operand.storage:
                    assert set(range(min(rows.stop, kernels[i].space[1]))) <= set(done[i]) or not kernels[i].ofm.row
        done[step.kernel] += step.y
    assert all(rows == list(range(kernels[i].space[1])) for i, rows in done.items())


@given(case=striped())
def test_line_buffers_keep_every_row_that_is_still_read(case: tuple[list[Kernel], Group]) -> None:
    kernels, group = case
    steps, book = expand(kernels, group), StripeBook(kernels)
    written = {kernel.ofm.storage for kernel in kernels[group.start : group.stop]}
    read = {o.storage for step in steps for o, _ in rows_read(kernels[step.kernel], step.y)}
    for storage in sorted(written & read):
        assert book.can_ring(group, storage) == can_ring(kernels, group, storage)
        if book.can_ring(group, storage):
            roll(kernels, steps, storage, ring_rows(kernels, steps, storage))


def can_ring(kernels: list[Kernel], group: Group, storage: str) -> bool:
    """Whether a storage is one image that only kernels of the group touch, row by row, and all with the same rows."""
    rows = set()
    for i, kernel in enumerate(kernels):
        if kernel.arm is not None and storage in kernel.reads:
            return False
        for operand in (kernel.ofm, kernel.ifm, kernel.ifm2):
            if operand is None or operand.storage != storage:
                continue
            if not group.start <= i < group.stop or not kernel.spatial or kernel.whole_input:
                return False
            row_bytes = operand.row if operand.is_pixel_major else operand.block // operand.shape[1]
            if operand.shape[0] != 1 or operand.row == 0 or row_bytes != operand.row:
                return False
            if operand.offset_bytes >= (operand.row if operand.is_pixel_major else 1):
                return False
            rows.add((operand.row, operand.shape[1]))
    return len(rows) <= 1


def roll(kernels: list[Kernel], steps: list[Step], storage: str, n_rows: int) -> None:
    """Row r goes to place r % n_rows of each writer's share; a read finds the row that it wants."""
    places: dict[int, dict[int, int]] = {}
    for step in steps:
        for operand, rows in rows_read(kernels[step.kernel], step.y):
            if operand.storage == storage:
                assert len(rows) <= n_rows
                assert all(share[row % n_rows] == row for share in places.values() for row in rows)
        if kernels[step.kernel].ofm.storage == storage:
            share = places.setdefault(step.kernel, {})
            share.update({row % n_rows: row for row in step.y})
            assert len(step.y) <= n_rows


Profile = np.ndarray[tuple[int], np.dtype[np.int64]]


@st.composite
def parameters(draw: st.DrawFn) -> tuple[Profile, list[ParameterUse]]:
    """Activation bytes at each task, and parameters by the first task that needs them."""
    n_tasks = draw(st.integers(1, 30))
    live = np.array(draw(st.lists(st.integers(0, 400), min_size=n_tasks, max_size=n_tasks)), np.int64)
    uses = []
    for i, first in enumerate(sorted(draw(st.lists(st.integers(0, n_tasks - 1), max_size=20)))):
        n_bytes = draw(st.integers(1, 200))
        buffer = Buffer(f"p{i}", "parameters", n_bytes, parts=(Part(f"k{i}", 0, n_bytes),))
        uses.append(ParameterUse(buffer, first, draw(st.integers(first, n_tasks - 1))))
    return live, uses


def earliest_loads(uses: list[ParameterUse], live: Profile, capacity: int, limits: list[int]) -> list[int]:
    """What `place_loads` finds, position by position."""
    room, positions = capacity - live, list[int]()
    for use in uses:
        room[use.first : use.last + 1] -= aligned(use.buffer.n_bytes)
    for use, limit in zip(uses, limits, strict=True):
        lowest = max([limit, *positions[-1:]])
        fitting = [p for p in range(use.first + 1) if (room[p : use.first] >= aligned(use.buffer.n_bytes)).all()]
        positions.append(min([p for p in fitting if p >= lowest], default=use.first))
        room[positions[-1] : use.first] -= aligned(use.buffer.n_bytes)
    return positions


@given(parameters(), st.integers(0, 1500), st.data())
def test_loads_are_as_early_as_room_and_limits_allow(
    needs: tuple[Profile, list[ParameterUse]], capacity: int, data: st.DataObject
) -> None:
    live, uses = needs
    limits = [data.draw(st.integers(0, use.first)) for use in uses]
    assert place_loads(uses, live, capacity, limits) == earliest_loads(uses, live, capacity, limits)
    assert place_loads(uses, live, capacity) == earliest_loads(uses, live, capacity, [0] * len(uses))


@given(parameters(), st.integers(0, 1500))
def test_parameters_stay_in_flash_where_they_find_no_room(
    needs: tuple[Profile, list[ParameterUse]], capacity: int
) -> None:
    live, left = needs
    found = misfits(left, live, capacity)
    streamed = set[str]()
    while True:
        busy = [
            int(live[at]) + sum(aligned(use.buffer.n_bytes) for use in left if use.first <= at <= use.last)
            for at in range(len(live))
        ]
        there = [use for use in left if use.first <= busy.index(max(busy)) <= use.last]
        if max(busy) <= capacity or not there:
            break
        largest = max(there, key=lambda use: use.buffer.n_bytes)
        left = [use for use in left if use is not largest]
        streamed.add(largest.buffer.parts[0].kernel)
    assert found == streamed


@given(parameters(), st.data())
def test_loads_move_ahead_only_where_there_is_room(
    needs: tuple[Profile, list[ParameterUse]], data: st.DataObject
) -> None:
    live, uses = needs
    firsts = [use.first for use in uses]

    def total(positions: list[int]) -> Profile:
        result = live.copy()
        for use, position in zip(uses, positions, strict=True):
            result[position : use.last + 1] += aligned(use.buffer.n_bytes)
        return result

    capacity = int(total(firsts).max()) + data.draw(st.integers(0, 300))
    positions = place_loads(uses, live, capacity)
    assert positions == sorted(positions)
    assert all(position <= use.first for position, use in zip(positions, uses, strict=True))
    assert total(positions).max() <= capacity


def bytes_of(operand: Operand, rows: range) -> set[int]:
    """Bytes of the storage in which rows of an int8 operand lie, element by element."""
    n, _, width, channels = operand.shape
    found = set()
    for channel in range(channels):
        block, at = divmod(channel, operand.c0)
        ragged = block == channels // operand.c0
        row = operand.last_row if ragged and operand.last_row else operand.row
        pixel = operand.last_pixel if ragged and operand.last_pixel else operand.pixel
        begin = operand.offset_bytes + block * operand.block + at
        found |= {begin + i * operand.batch + y * row + x * pixel for i in range(n) for y in rows for x in range(width)}
    return found


def cut_or_reshaped(data: st.DataObject, shape: tuple[int, ...]) -> Op:
    """A view of an image that may begin behind its first row, or have rows of another length."""
    n, c, h, w = shape
    if data.draw(st.booleans()):
        return Reshape(data.draw(st.sampled_from([(n, c, h * 2, w // 2), (n, c, h // 2, w * 2), shape])))
    starts = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    stops = tuple(data.draw(st.integers(start + 1, size)) for size, start in zip(shape, starts, strict=True))
    return Slice(starts, stops, (1,) * 4)


@given(data=st.data())
def test_rows_behind_a_view_wait_for_all_the_bytes_that_they_read(data: st.DataObject) -> None:
    shape = (1, data.draw(st.integers(1, 20)), 2 * data.draw(st.integers(1, 6)), 2 * data.draw(st.integers(1, 6)))
    view = cut_or_reshaped(data, shape)
    quant = QuantParams(0.5, 0)
    image = TensorType("int8", shape, quant)
    seen = replace(view.infer(image)[0], quant=quant)
    pool = QMaxPool(Window((1, 1)), (-128, 127))
    nodes = (Node("a", pool, ("x",), ("u",)), Node("view", view, ("u",), ("v",)), Node("b", pool, ("v",), ("y",)))
    graph = verify(Graph("view", nodes, {"x": image, "u": image, "v": seen, "y": seen}, {}, ("x",), ("y",)))
    kernels = partition(graph, TARGET, ERROR).kernels
    stripes = data.draw(st.integers(2, 8))
    written: dict[str, set[int]] = {}
    for step in expand(kernels, Group(0, len(kernels), stripes)):
        kernel = kernels[step.kernel]
        for operand, rows in rows_read(kernel, step.y):
            if operand.storage != "x":
                assert bytes_of(operand, rows) <= written[operand.storage]
        written.setdefault(kernel.ofm.storage, set()).update(bytes_of(kernel.ofm, step.y))
