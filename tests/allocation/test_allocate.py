"""The allocator against brute force, its own promises, and the published instances."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from npuc.allocation import (
    Buffer,
    CapacityExceeded,
    InvalidProblem,
    Problem,
    allocate,
    live_at_peak,
    read_problem,
    validate_placement,
)
from tests.allocation.brute_force import smallest_peak
from tests.allocation.strategies import aliased_problems, buffers, tied_problems
from tests.shared_data import ROOT, shared_file

PROVEN_HARD_INSTANCES = "ABCEFGHIK"
ROOMY_HARD_INSTANCES = "DJ"
HARD_CAPACITY_BYTES = 1 << 20


@settings(max_examples=150)
@given(buffers(6))
def test_small_problems_get_the_brute_force_peak_with_a_proof(drawn: tuple[Buffer, ...]) -> None:
    placement = allocate(Problem(drawn))
    assert (placement.peak_bytes, placement.status) == (smallest_peak(Problem(drawn)), "optimal")


@settings(max_examples=60)
@given(aliased_problems(5))
def test_mixed_alignments_and_aliases_get_the_brute_force_peak(problem: Problem) -> None:
    placement = allocate(problem)
    validate_placement(problem, placement)
    assert (placement.peak_bytes, placement.status) == (smallest_peak(problem), "optimal")


@settings(max_examples=100)
@given(tied_problems(5))
def test_tied_buffers_get_the_brute_force_peak_or_are_refused(problem: Problem) -> None:
    try:
        placement = allocate(problem)
    except InvalidProblem:
        return
    validate_placement(problem, placement)
    assert (placement.peak_bytes, placement.status) == (smallest_peak(problem), "optimal")


@settings(max_examples=100)
@given(tied_problems(9))
def test_exact_search_is_never_worse_than_the_greedy_packings(problem: Problem) -> None:
    try:
        greedy = allocate(problem, effort=0)
    except InvalidProblem:
        return
    exact = allocate(problem)
    validate_placement(problem, greedy)
    validate_placement(problem, exact)
    assert greedy.bound_bytes <= exact.bound_bytes <= exact.peak_bytes <= greedy.peak_bytes


@settings(max_examples=60)
@given(buffers(14))
def test_no_two_live_buffers_overlap(drawn: tuple[Buffer, ...]) -> None:
    problem = Problem(drawn)
    validate_placement(problem, allocate(problem))
    validate_placement(problem, allocate(problem, effort=0))


def test_nothing_needs_no_memory() -> None:
    placement = allocate(Problem(()))
    assert (placement.offsets, placement.peak_bytes, placement.status) == ({}, 0, "optimal")


def test_fixed_buffers_stay_and_others_fill_the_holes() -> None:
    fixed = (Buffer("low", 0, 9, 16, fixed_offset=16), Buffer("high", 0, 9, 16, fixed_offset=64))
    problem = Problem((*fixed, Buffer("a", 0, 5, 32), Buffer("b", 2, 9, 16)))
    placement = allocate(problem)
    validate_placement(problem, placement)
    assert (placement.peak_bytes, placement.status) == (80, "optimal")


def test_aliases_leave_their_memory_free_between_their_lives() -> None:
    parts = (Buffer("early", 0, 2, 64), Buffer("late", 4, 6, 64), Buffer("between", 2, 4, 64))
    placement = allocate(Problem(parts, aliases=(("early", "late"),)))
    assert set(placement.offsets.values()) == {0}


def test_contiguous_buffers_follow_each_other() -> None:
    parts = (Buffer("x", 0, 3, 48), Buffer("y", 1, 4, 16), Buffer("z", 2, 4, 32), Buffer("other", 0, 4, 16))
    problem = Problem(parts, contiguous=(("x", "y", "z"),))
    placement = allocate(problem)
    validate_placement(problem, placement)
    assert placement.peak_bytes == 112


@pytest.mark.parametrize("effort", [0.0, 1.0])
def test_optimal_means_that_peak_equals_bound(effort: float) -> None:
    placement = allocate(read_problem(shared_file("bench", "nets", "nasnetA18.csv")), effort)
    assert (placement.status == "optimal") == (placement.gap_bytes == 0)
    assert placement.status == ("optimal" if effort else "feasible")


def test_too_small_a_capacity_names_what_is_live_at_the_peak() -> None:
    problem = Problem((Buffer("a", 0, 2, 100), Buffer("b", 1, 3, 60), Buffer("c", 2, 4, 20)), capacity_bytes=128)
    with pytest.raises(CapacityExceeded, match=r"need 160 bytes, capacity 128 bytes.*a \(100 bytes\), b") as caught:
        allocate(problem)
    error = caught.value
    assert (error.needed_bytes, error.bound_bytes, error.capacity_bytes) == (160, 160, 128)
    assert error.live == (("a", 100), ("b", 60)) == live_at_peak(problem)


@pytest.mark.parametrize("folder", ["nets", "liveranges"])
def test_every_network_is_proven_optimal(folder: str) -> None:
    paths = sorted(shared_file("bench", folder).glob("*.csv"))
    assert paths
    for path in paths:
        problem = read_problem(path)
        placement = allocate(problem)
        assert placement.status == "optimal", path.name
        if len(problem.buffers) < 1000:
            validate_placement(problem, placement)


@pytest.mark.parametrize("name", PROVEN_HARD_INSTANCES)
def test_hard_instances_are_proven_optimal(name: str) -> None:
    problem = read_problem(_hard_instance(name), HARD_CAPACITY_BYTES)
    placement = allocate(problem)
    validate_placement(problem, placement)
    assert placement.status == "optimal"


@pytest.mark.parametrize("name", ROOMY_HARD_INSTANCES)
def test_roomy_hard_instances_fit_with_a_fifth_of_the_effort(name: str) -> None:
    problem = read_problem(_hard_instance(name), HARD_CAPACITY_BYTES)
    placement = allocate(problem, effort=0.2)
    validate_placement(problem, placement)
    assert placement.peak_bytes < HARD_CAPACITY_BYTES


def _hard_instance(name: str) -> Path:
    return shared_file("bench", "minimalloc", f"{name}.{HARD_CAPACITY_BYTES}.csv")


def test_answer_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "import sys; from pathlib import Path; from npuc.allocation import allocate, read_problem;"
        "print(allocate(read_problem(Path(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", program, str(_hard_instance("F"))]
    outputs = {
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "0", "1", "2")
    }
    assert len(outputs) == 1
