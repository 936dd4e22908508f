"""MAC instructions on random shapes: all of sram against the simulator; port words and cycles against the timing model
and against a walk through every word and part that shares no code with it."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from isa.instructions import Queue
from isa.timing import Work
from simulator.trace import timing
from tests.rtl.bench import Result, run
from tests.rtl.shapes import Case, draw, expected_sram, job_of, memory, program_of
from tests.rtl.walk import Walk
from tests.simulator.assemble import SRAM_BYTES

TICKS = 1024
KINDS = ("conv", "stem", "depthwise")
SHAPES = 55
"""Shapes of each kind, aligned and not: 330 together."""


@dataclass(frozen=True)
class Measured:
    """A shape, what the timing model says of its instruction, and what the core did."""

    case: Case
    work: Work
    index: int
    predicted: int
    result: Result
    is_exact: bool

    @property
    def cycles(self) -> int:
        start, _, retire = self.result.times[self.index]
        return int(retire - start)


def draws(kind: str, aligned: bool) -> list[Case]:
    rng = np.random.default_rng([KINDS.index(kind), int(aligned)])
    found: list[Case] = []
    while len(found) < SHAPES:
        case = draw(rng, kind, aligned=aligned)
        if case is not None:
            found.append(case)
    return found


@cache
def measured(kind: str, aligned: bool) -> list[Measured]:
    rng = np.random.default_rng(1)
    cases = draws(kind, aligned)
    jobs = [job_of(program_of([case]), memory(rng)) for case in cases]
    rows = []
    for case, job, result in zip(cases, jobs, run(jobs), strict=True):
        index = len(job.program.code) - 2
        work = timing(job.program).work
        times = timing(job.program).timeline
        predicted = -(-int(times.retire[index] - times.start[index]) // TICKS)
        is_exact = np.array_equal(result.sram, expected_sram(job.program, job.sram))
        rows.append(Measured(case, work, index, predicted, result, is_exact))
    return rows


SETS = pytest.mark.parametrize(("kind", "aligned"), [(kind, aligned) for kind in KINDS for aligned in (True, False)])


@SETS
def test_every_shape_is_bit_exact(kind: str, aligned: bool) -> None:
    wrong = [str(row.case) for row in measured(kind, aligned) if not row.is_exact]
    assert not wrong


@SETS
def test_port_words_are_those_of_the_timing_model(kind: str, aligned: bool) -> None:
    for row in measured(kind, aligned):
        assert row.result.words_read == row.work.read_words[row.index], row.case
        assert row.result.words_written == row.work.write_words[row.index], row.case


@SETS
def test_cycles_are_those_of_the_timing_model(kind: str, aligned: bool) -> None:
    off = {str(row.case): row.cycles - row.predicted for row in measured(kind, aligned) if row.cycles != row.predicted}
    assert not off


@SETS
def test_the_last_part_and_the_end_are_those_of_the_walk(kind: str, aligned: bool) -> None:
    for row in measured(kind, aligned):
        walk = Walk(row.case)
        start, issue_end, retire = row.result.times[row.index].tolist()
        assert (issue_end - start, retire - start) == (walk.issue_end, walk.retire), row.case
        assert row.result.words_read == len(walk.order.words), row.case


@pytest.mark.parametrize("seed", range(6))
def test_instructions_one_after_the_other_are_bit_exact_and_keep_the_times_of_the_scoreboard(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases = [case for _ in range(12) for kind in KINDS if (case := draw(rng, kind, aligned=seed % 2 == 0)) is not None]
    program, before = program_of(cases), memory(rng)
    (result,) = run([job_of(program, before)])
    np.testing.assert_array_equal(result.sram, expected_sram(program, before))
    assert len(result.sram) == SRAM_BYTES
    times, is_mac = timing(program).timeline, program.code.queue == Queue.MAC
    expected = np.stack([times.start, times.issue_end, times.retire], axis=1)[is_mac]
    np.testing.assert_array_equal(TICKS * result.times[is_mac], expected)
