"""Laws that need no second model: faster machines, lower bounds, and books that balance, on random programs."""

from dataclasses import fields, replace

import numpy as np
import pytest

from isa.target import Board, Costs, Rate, Target
from isa.target_file import load_target
from isa.timing import TICKS, bound_cycles, schedule_of, simulate, work_of
from simulator.program import load
from tests.stepped.fuzz import random_program
from tests.stepped.model import step_program

TARGETS = ("edge-256", "u55-like", "soc-1k")
SEEDS = range(4)


def twice_as_fast(target: Target) -> Target:
    """All rates doubled, all fixed times halved; the datapath's steps cannot be halved and stay."""
    board = {f.name: getattr(target.board, f.name) for f in fields(Board)}
    board |= {name: 2 * value for name, value in board.items() if name.endswith("bytes_per_cycle")}
    board |= {name: value // 2 for name, value in board.items() if name.endswith("latency_cycles")}
    costs = {f.name: getattr(target.costs, f.name) for f in fields(Costs)}
    costs |= {name: Rate(2 * r.numerator, r.denominator) for name, r in costs.items() if isinstance(r, Rate)}
    halved = ("block_fill_cycles", "block_drain_cycles", "dma_setup_cycles", "dispatch_cycles")
    costs |= {name: costs[name] // 2 for name in halved}
    return replace(target, board=Board(**board), costs=Costs(**costs))


@pytest.mark.parametrize("name", TARGETS)
def test_more_of_everything_is_not_slower(name: str) -> None:
    target = load_target(name)
    for seed in SEEDS:
        program = random_program(seed, target)
        assert step_program(program, twice_as_fast(target)).cycles <= step_program(program, target).cycles


@pytest.mark.parametrize("name", TARGETS)
def test_no_instruction_beats_its_busiest_resource(name: str) -> None:
    target = load_target(name)
    for seed in SEEDS:
        program = random_program(seed, target)
        stepped = step_program(program, target)
        bound = bound_cycles(work_of(load(program).columns, target), target)
        ran = stepped.start >= 0
        assert (stepped.retire[ran] - stepped.start[ran] >= np.asarray(bound)[ran]).all()


@pytest.mark.parametrize("name", TARGETS)
def test_busy_and_stalls_of_the_scoreboard_sum_to_its_total(name: str) -> None:
    target = load_target(name)
    for seed in SEEDS:
        columns = load(random_program(seed, target)).columns
        schedule = schedule_of(columns)
        timeline = simulate(work_of(columns, target), schedule, target)
        assert int(timeline.queue_ticks(schedule).sum(axis=1).max()) <= timeline.total_cycles * TICKS
        for queue, ticks in enumerate(timeline.queue_ticks(schedule)[:4].sum(axis=1)):
            assert ticks == timeline.retire[schedule.queue == queue].max(initial=0)
