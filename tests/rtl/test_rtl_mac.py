"""MAC instructions on random shapes: all of sram against the simulator, port words and cycles against the timing.

Where short blocks differ the core is faster than the timing, because its buffers are rings that run further ahead than
the next chunk; where chunks differ in other ways it may be a few cycles slower. docs/rtl.md has the figures.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from isa.timing import Work, simulate
from simulator.trace import timing
from tests.rtl.bench import Result, run
from tests.rtl.shapes import TARGET, Case, draw, expected_sram, job_of, memory, program_of
from tests.simulator.assemble import SRAM_BYTES

KINDS = ("conv", "stem", "depthwise")
SHAPES = 55
"""Shapes of each kind, aligned and not: 330 together."""

EXACT_SHARE = 0.85
"""Shapes of a set that take exactly the predicted cycles, at least."""

LARGEST_EXCESS = 64
"""Cycles that one shape may take more."""

LARGEST_GAIN = 0.2
"""Part of the predicted cycles that one shape may take less."""

SET_ERROR = 0.02
"""Difference of all shapes of a set together."""


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
        times = simulate(work, timing(job.program).schedule, TARGET)
        predicted = -(-int(times.retire[index] - times.start[index]) // 1024)
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
    rows = measured(kind, aligned)
    off = {str(row.case): row.cycles - row.predicted for row in rows if row.cycles != row.predicted}
    assert len(off) <= (1 - EXACT_SHARE) * len(rows), off
    assert all(row.cycles - row.predicted <= LARGEST_EXCESS for row in rows), off
    assert all(row.cycles >= (1 - LARGEST_GAIN) * row.predicted for row in rows), off
    assert sum(map(abs, off.values())) <= SET_ERROR * sum(row.predicted for row in rows), off


@pytest.mark.parametrize("seed", range(6))
def test_instructions_one_after_the_other_are_bit_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cases = [case for _ in range(12) for kind in KINDS if (case := draw(rng, kind, aligned=seed % 2 == 0)) is not None]
    program, before = program_of(cases), memory(rng)
    (result,) = run([job_of(program, before)])
    np.testing.assert_array_equal(result.sram, expected_sram(program, before))
    assert len(result.sram) == SRAM_BYTES
