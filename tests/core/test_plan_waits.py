"""Wait conditions of a whole plan against those that the tracker gives task by task."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.instructions import CONDITIONS, Queue
from isa.timing.compiled import IS_COMPILED
from npuc.emit import plan_waits
from npuc.emit.plan_waits import NONE, TaskWaits, waits_of
from npuc.emit.waits import QUEUES, WaitTracker

SRAM_BYTES = 1024


@dataclass(frozen=True)
class Visit:
    """A task: queue, kernel and the one that it comes after (NONE), bytes that it reads and writes."""

    queue: Queue
    kernel: int
    after: int
    reads: list[tuple[int, int]]
    writes: list[tuple[int, int]]


INTERVALS = st.tuples(st.integers(0, SRAM_BYTES - 1), st.integers(1, 200)).map(
    lambda found: (found[0], min(found[0] + found[1], SRAM_BYTES))
)
VISITS = st.builds(
    Visit,
    st.sampled_from(QUEUES),
    st.integers(NONE, 3),
    st.integers(NONE, 3),
    st.lists(INTERVALS, max_size=3),
    st.lists(INTERVALS, max_size=2),
)


def at_once(visits: list[Visit]) -> TaskWaits:
    starts, spans = [0], list[tuple[int, int, bool]]()
    for visit in visits:
        spans += [(*interval, False) for interval in visit.reads] + [(*interval, True) for interval in visit.writes]
        starts.append(len(spans))
    return waits_of([v.queue for v in visits], [v.kernel for v in visits], [v.after for v in visits], starts, spans)


def name(kernel: int) -> str:
    return f"k{kernel}" if kernel != NONE else ""


@settings(max_examples=150)
@given(st.lists(VISITS, min_size=1, max_size=30))
def test_waits_of_a_plan_are_those_of_its_tasks_in_turn(visits: list[Visit]) -> None:
    found, tracker, waited = at_once(visits), WaitTracker(SRAM_BYTES), 0
    for visit, counts, loads in zip(visits, found.counts.tolist(), found.loads.tolist(), strict=True):
        extra, held = tracker.visit(
            visit.queue, visit.reads, visit.writes, kernel=name(visit.kernel), after=name(visit.after)
        )
        pairs = [(queue, count) for queue, count in zip(QUEUES, counts, strict=True) if count]
        assert (extra, held) == (pairs[:-CONDITIONS], pairs[-CONDITIONS:])
        assert tracker.loads_before() == ([(Queue.DMA_IN, loads)] if loads != waited else [])
        waited = loads


@pytest.mark.skipif(not IS_COMPILED, reason="there is one variant only")
def test_waits_are_the_same_uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = [Visit(QUEUES[i % 5], i % 3, i % 2 - 1, [(16 * i, 16 * i + 40)], [(8 * i, 8 * i + 20)]) for i in range(40)]
    found = at_once(visits)
    monkeypatch.setattr(plan_waits, "_follow", vars(plan_waits)["_follow"].py_func)
    again = at_once(visits)
    assert (found.counts == again.counts).all()
    assert (found.loads == again.loads).all()
