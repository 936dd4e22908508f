"""The event scoreboard: programs small enough to time by hand, laws on random ones, deadlocks, both builds."""

import hashlib
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.descriptors import Memory, address
from isa.errors import IsaError
from isa.instructions import BY_MNEMONIC, NO_CONDITION, Queue
from isa.target import Target
from isa.target_file import load_target
from isa.timing import (
    TICKS,
    Resource,
    Schedule,
    TickClass,
    Timeline,
    Work,
    bound_cycles,
    schedule_of,
    simulate,
    work_of,
)
from isa.timing import compiled as compiled_module
from tests.shared_data import ROOT

EDGE = load_target("edge-256")
U55 = load_target("u55-like")
SOC = load_target("soc-1k")
SRAM = address(Memory.SRAM, 0)
PUSH_0 = 64 + 4
"""Cycle at which the first instruction of no bytes is in its queue: flash latency and dispatch."""

Wait = tuple[Queue, int]
Row = tuple[Queue, dict[str, int], tuple[Wait, ...]]


def make(*rows: Row) -> tuple[Work, Schedule]:
    """Work and schedule from (queue, amounts, conditions); instructions of no bytes unless `stream_bytes` says so."""
    columns = {f.name: np.array([amounts.get(f.name, 0) for _, amounts, _ in rows], np.int64) for f in fields(Work)}
    wait_queue = np.full((len(rows), 6), NO_CONDITION, np.int64)
    wait_count = np.zeros((len(rows), 6), np.int64)
    for i, (_, _, waits) in enumerate(rows):
        for j, (queue, count) in enumerate(waits):
            wait_queue[i, j], wait_count[i, j] = queue, count
    return Work(**columns), Schedule(np.array([queue for queue, _, _ in rows], np.int64), wait_queue, wait_count)


def cycles(timeline: Timeline, name: str) -> list[float]:
    return [float(v) / TICKS for v in getattr(timeline, name)]


def test_two_loads_by_hand() -> None:
    columns = {
        "opcode": np.array([BY_MNEMONIC[name].opcode for name in ("dma.load", "dma.load", "end")]),
        "length": np.array([1000, 500, 0]),
        "source": np.zeros(3, np.int64),
        "destination": np.full(3, SRAM),
    }
    timeline = simulate(work_of(columns, EDGE), schedule_of(columns), EDGE)
    # 64 latency, 24 bytes, 4 dispatch; 16 set-up until 108, when 20 of the other 32 bytes have come. The last 12 share
    # the flash with the load: 24 cycles. The second load starts with the last request of the first.
    assert cycles(timeline, "start")[:2] == [92, 1120]
    assert cycles(timeline, "issue_end")[:2] == [1120, 1120 + 16 + 500]
    assert cycles(timeline, "retire")[:2] == [1120 + 64, 1636 + 64]
    assert timeline.total_cycles == 1700
    assert timeline.resource_busy[Resource.FLASH] == (20 + 24 + 988 + 500 + 24) * TICKS
    assert timeline.charged[0].tolist()[: TickClass.FLASH + 1] == [
        125 * TICKS, 92 * TICKS, 16 * TICKS, 0, (1012 - 125) * TICKS,
    ]  # fmt: skip


MAC = {"lead_cycles": 48, "read_words": 100, "first_read_words": 100, "compute": 600, "last_compute": 100}


def test_first_load_of_a_run_hides_behind_the_last_block() -> None:
    run = MAC | {"last_compute": 200, "compute": 700, "drain_cycles": 16}
    timeline = simulate(*make((Queue.MAC, run, ()), (Queue.MAC, run, ())), EDGE)
    first = PUSH_0 + 48 + 100 + 500
    assert cycles(timeline, "issue_end") == [first, first + 200 + 500]
    assert cycles(timeline, "start") == [PUSH_0, first]
    assert cycles(timeline, "retire") == [first + 200 + 16, first + 900 + 16]


def test_waiting_on_its_own_queue_exposes_drain_and_first_load() -> None:
    run = MAC | {"last_compute": 200, "compute": 700, "drain_cycles": 16}
    timeline = simulate(*make((Queue.MAC, run, ()), (Queue.MAC, run, ((Queue.MAC, 1),))), EDGE)
    retired = PUSH_0 + 48 + 100 + 700 + 16
    assert cycles(timeline, "start") == [PUSH_0, retired]
    assert timeline.total_cycles == 2 * retired - PUSH_0
    assert timeline.charged[1, TickClass.CONDITION_MAC] == 16 * TICKS
    assert TickClass(int(timeline.stall[1])) is TickClass.SRAM_PORT


def test_users_of_a_port_share_it_equally() -> None:
    work, schedule = make(
        (Queue.VEC, {"read_words": 100, "write_words": 10}, ()), (Queue.DMA_OUT, {"read_words": 100}, ())
    )
    timeline = simulate(work, schedule, EDGE)
    # 4 cycles alone, then both at half rate; the second finishes its last 4 words alone.
    assert cycles(timeline, "retire") == [PUSH_0 + 4 + 192, PUSH_0 + 4 + 192 + 4]
    shared = simulate(work, schedule, U55)
    assert cycles(shared, "retire") == [PUSH_0 + 4 + 200 + 6, PUSH_0 + 4 + 200]
    assert TickClass(int(shared.stall[0])) is TickClass.SRAM_PORT
    assert shared.charged[0, TickClass.SRAM_PORT] == 210 * TICKS


def test_queue_of_depth_one_holds_the_fetcher() -> None:
    target = replace(EDGE, costs=replace(EDGE.costs, queue_depth=1))
    rows = [(Queue.VEC, {"compute": 100}, ())] * 3 + [(Queue.MAC, {"compute": 1}, ())]
    timeline = simulate(*make(*rows), target)
    # The second waits in the queue, the third at the fetcher until the second starts, and so does the MAC behind it.
    assert cycles(timeline, "start") == [PUSH_0, PUSH_0 + 100, PUSH_0 + 200, PUSH_0 + 104]


def test_descriptor_load_costs_latency_and_bytes() -> None:
    rows = ((Queue.FETCH, {"stream_bytes": 16, "descriptor_bytes": 72}, ()), (Queue.VEC, {"stream_bytes": 24}, ()))
    timeline = simulate(*make(*rows), EDGE)
    # The next instruction's 24 bytes arrive during the dispatch and the latency of the descriptor.
    assert cycles(timeline, "retire") == [64 + 16 + 4 + 64 + 72, 64 + 16 + 4 + 64 + 72 + 4]


def test_conditions_of_a_descriptor_load_hold_the_fetcher() -> None:
    load = {"stream_bytes": 16, "descriptor_bytes": 72}
    copy: Row = (Queue.DMA_OUT, {"compute": 1000}, ())
    after: Row = (Queue.VEC, {}, ())
    timeline = simulate(*make(copy, (Queue.FETCH, load, ((Queue.DMA_OUT, 1),)), after), EDGE)
    # The copy retires at 1068; the descriptor's latency and bytes follow, then the next dispatch.
    assert cycles(timeline, "start")[2] == PUSH_0 + 1000 + 64 + 72 + 4
    never = simulate(*make((Queue.FETCH, load, ((Queue.DMA_OUT, 1),)), copy), EDGE)
    assert str(never.deadlock) == "instruction 0 heads queue FETCH and waits for DMA_OUT to retire 1 (retired 0)"


def test_conditions_compare_modulo_2_to_the_16() -> None:
    work, schedule = make(
        (Queue.DMA_IN, {"compute": 50}, ()),
        (Queue.VEC, {"compute": 5}, ((Queue.DMA_IN, 1),)),
        (Queue.MAC, {"compute": 5}, ((Queue.DMA_IN, 0xFFF0),)),
    )
    timeline = simulate(work, schedule, EDGE)
    assert cycles(timeline, "start") == [PUSH_0, PUSH_0 + 50, PUSH_0 + 8]
    assert TickClass(int(timeline.stall[1])) is TickClass.FETCH
    assert timeline.charged[1, TickClass.CONDITION_DMA_IN] == 46 * TICKS


def test_arm_calls_run_in_order_and_are_not_fetched() -> None:
    work, schedule = make((Queue.DMA_IN, {"compute": 50}, ()), (Queue.VEC, {"compute": 5}, ((Queue.ARM, 2),)))
    work = work.with_arm(np.array([30, 40], np.int64))
    schedule = schedule.with_arm(np.array([[NO_CONDITION], [Queue.DMA_IN]]), np.array([[0], [1]]))
    assert cycles(simulate(work, schedule, EDGE), "start") == [PUSH_0, PUSH_0 + 90, 0, PUSH_0 + 50]


def test_a_program_of_arm_calls_alone_runs() -> None:
    work, schedule = make()
    timeline = simulate(
        work.with_arm(np.array([30], np.int64)),
        schedule.with_arm(np.full((1, 3), NO_CONDITION), np.zeros((1, 3), np.int64)),
        EDGE,
    )
    assert (timeline.total_cycles, timeline.deadlock) == (30, None)
    assert simulate(work, schedule, EDGE).total_cycles == 0


def test_two_heads_that_wait_for_each_other_deadlock() -> None:
    timeline = simulate(*make((Queue.VEC, {}, ((Queue.MAC, 1),)), (Queue.MAC, {}, ((Queue.VEC, 1),))), EDGE)
    assert str(timeline.deadlock) == (
        "instruction 1 heads queue MAC and waits for VEC to retire 1 (retired 0); "
        "instruction 0 heads queue VEC and waits for MAC to retire 1 (retired 0)"
    )
    assert timeline.retire.tolist() == [-1, -1]


def test_full_queue_deadlocks_the_fetcher() -> None:
    rows: list[Row] = [(Queue.MAC, {}, ((Queue.DMA_IN, 1),))] * 17 + [(Queue.DMA_IN, {}, ())]
    timeline = simulate(*make(*rows), EDGE)
    assert timeline.deadlock is not None
    assert timeline.deadlock.fetcher == (16, Queue.MAC)
    assert [head.instruction for head in timeline.deadlock.heads] == [0]
    assert "the fetcher holds instruction 16, queue MAC is full" in str(timeline.deadlock)
    assert simulate(*make(*rows[1:]), EDGE).deadlock is None


def test_memory_that_the_target_lacks_is_refused() -> None:
    with pytest.raises(IsaError, match="instruction 0 uses a memory that the target does not have"):
        simulate(*make((Queue.VEC, {"dram_bytes": 8}, ())), EDGE)


def random_program(rng: np.random.Generator, n: int) -> tuple[Work, Schedule]:
    """Random amounts on all queues; conditions name instructions that stand earlier, so that nothing deadlocks."""
    rows: list[Row] = []
    issued = dict.fromkeys(Queue, 0)
    for _ in range(n):
        queue = Queue(int(rng.choice((0, 1, 2, 2, 3, 5))))
        total = rng.integers(0, 400, 6) * rng.integers(0, 2, 6)
        amounts = dict(
            zip(("compute", "output", "read_words", "write_words", "flash_bytes", "dram_bytes"), total, strict=True)
        )
        amounts |= {"stream_bytes": int(rng.integers(1, 5)) * 8, "lead_cycles": int(rng.integers(0, 50))}
        if queue is Queue.MAC:
            amounts |= {f"first_{name}": total[2 + i] // 3 for i, name in ((0, "read_words"), (2, "flash_bytes"))}
            amounts |= {f"last_{name}": total[i] // 4 for i, name in enumerate(("compute", "output"))}
            amounts |= {"last_write_words": total[3] // 2, "drain_cycles": 16, "pace": int(rng.integers(0, 600))}
        if queue is Queue.FETCH:
            amounts = {"stream_bytes": 16, "descriptor_bytes": int(rng.integers(0, 16)) * 8}
        on = rng.choice(4, int(rng.integers(0, 4)), replace=False) if rng.random() < 0.5 else ()
        waits = tuple((Queue(int(q)), max(issued[Queue(int(q))] - int(rng.integers(0, 4)), 0)) for q in on)
        rows.append((queue, amounts, () if queue is Queue.FETCH else waits))
        issued[queue] += 1
    return make(*rows)


def scaled(work: Work, factor: int) -> Work:
    return Work(**{f.name: getattr(work, f.name) * factor for f in fields(Work)})


def slower(target: Target, factor: int) -> Target:
    """All fixed times of the fetcher and the memories `factor` times as long, its buffer as much larger."""
    costs = replace(
        target.costs,
        dispatch_cycles=target.costs.dispatch_cycles * factor,
        prefetch_bytes=target.costs.prefetch_bytes * factor,
    )
    return replace(
        target,
        costs=costs,
        board=replace(target.board, flash_latency_cycles=target.board.flash_latency_cycles * factor),
    )


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_every_tick_of_a_queue_has_a_class_and_no_resource_beats_its_rate(seed: int) -> None:
    work, schedule = random_program(np.random.default_rng(seed), 60)
    timeline = simulate(work, schedule, SOC)
    assert timeline.deadlock is None
    ticks = timeline.queue_ticks(schedule).sum(axis=1)
    for queue in (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC):
        mine = schedule.queue == queue
        assert ticks[queue] == timeline.retire[mine].max(initial=0)
        assert (np.diff(timeline.start[mine]) >= 0).all()
        assert (timeline.start[mine][1:] >= timeline.issue_end[mine][:-1]).all()
        assert (np.diff(timeline.retire[mine]) >= 0).all()
        assert timeline.total_cycles >= work.compute[mine].sum()
    assert timeline.total_ticks >= ticks.max()
    assert (timeline.retire - timeline.start >= 0).all()
    assert ((timeline.retire - timeline.start + TICKS - 1) // TICKS >= bound_cycles(work, SOC)).all()
    words = (work.read_words * 8 * TICKS // SOC.board.sram_read_bytes_per_cycle).sum()
    assert words <= timeline.resource_busy[Resource.SRAM_READ] <= timeline.total_ticks


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_machine_that_does_everything_twice_as_fast_needs_half_the_time(seed: int) -> None:
    work, schedule = random_program(np.random.default_rng(seed), 60)
    fast = simulate(work, schedule, SOC).total_ticks
    slow = simulate(scaled(work, 2), schedule, slower(SOC, 2)).total_ticks
    assert fast <= slow
    # Each event of the fluid sharing rounds by less than a tick.
    assert abs(slow - 2 * fast) <= 60 * 40


@given(seeds, st.sampled_from(("sram_read", "sram_write", "flash", "dram")))
@settings(max_examples=80, deadline=None)
def test_an_instruction_alone_is_never_slower_with_more_bandwidth(seed: int, name: str) -> None:
    work, schedule = random_program(np.random.default_rng(seed), 1)
    field = f"{name}_bytes_per_cycle"
    faster = replace(SOC, board=replace(SOC.board, **{field: 2 * getattr(SOC.board, field)}))
    assert simulate(work, schedule, faster).total_ticks <= simulate(work, schedule, SOC).total_ticks


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_an_instruction_alone_takes_the_sum_of_its_steps(seed: int) -> None:
    work, schedule = random_program(np.random.default_rng(seed), 1)
    rates = {"compute": 1, "output": 1, "read_words": 2, "write_words": 2, "flash_bytes": 1, "dram_bytes": 8}
    steps = {"first": 0.0, "body": 0.0, "last": 0.0}
    for name, rate in rates.items():
        first, last = (int(getattr(work, f"{part}_{name}", np.zeros(1))[0]) for part in ("first", "last"))
        body = int(getattr(work, name)[0]) - first - last
        for step, amount in (("first", first), ("body", body), ("last", last)):
            steps[step] = max(steps[step], amount / rate)
    steps["body"] = max(steps["body"], float(work.pace[0]))
    fixed = int((work.lead_cycles + work.drain_cycles)[0])
    board = replace(SOC.board, flash_bytes_per_cycle=1, dram_bytes_per_cycle=8)
    timeline = simulate(work, schedule, replace(SOC, board=board))
    if schedule.queue[0] != Queue.FETCH:
        assert cycles(timeline, "retire")[0] - cycles(timeline, "start")[0] == fixed + sum(steps.values())


DIGEST = """
import sys
if len(sys.argv) > 1:
    sys.modules["numba"] = None
import numpy as np
from isa.timing import simulate
from isa.timing.compiled import IS_COMPILED
assert IS_COMPILED == (len(sys.argv) == 1)
from tests.isa.test_timing_scoreboard import digest
print(digest())
"""


def digest() -> str:
    """Hash of the timelines of seeded programs on three targets."""
    result = hashlib.sha256()
    for seed in range(12):
        work, schedule = random_program(np.random.default_rng(seed), 80)
        for target in (SOC, replace(SOC, board=replace(SOC.board, sram_shared_port=True, flash_bytes_per_cycle=3))):
            timeline = simulate(work, schedule, target)
            for column in (timeline.start, timeline.issue_end, timeline.retire, timeline.charged):
                result.update(np.ascontiguousarray(column).tobytes())
            result.update(str((timeline.total_ticks, timeline.resource_busy)).encode())
    return result.hexdigest()


def test_plain_python_gives_the_same_bits_as_the_compiled_engine() -> None:
    outputs = [
        subprocess.run(
            [sys.executable, "-c", DIGEST, *arguments], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout.strip()
        for arguments in ((), ("without-numba",))
    ]
    assert outputs[0] == outputs[1] == digest()


def test_kernels_compile_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")

    def njit(function: object = None, *, cache: bool = False) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(function)

    monkeypatch.setattr(compiled_module, "njit", njit)

    def double(x: int) -> int:
        return 2 * x

    assert compiled_module.compiled(double)(21) == 42
