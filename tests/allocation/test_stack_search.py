"""The stack search finds what exists, proves what does not, and needs neither numba nor one uninterrupted run."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings

from npuc.allocation import Buffer, Problem, allocate, optimal_placements, read_problem, validate_placement
from npuc.allocation.component_search import is_stackable, shaken
from npuc.allocation.greedy import body_orders
from npuc.allocation.normal_form import Component, normalize
from npuc.allocation.packing import Verdict
from npuc.allocation.stack_search import Stacking, StackSearch
from tests.allocation.brute_force import smallest_peak
from tests.allocation.strategies import aliased_problems
from tests.shared_data import ROOT, shared_file

ENOUGH_NODES = 1_000_000


@settings(max_examples=100)
@given(aliased_problems(6))
def test_brute_force_height_is_found_and_one_unit_less_is_exhausted(problem: Problem) -> None:
    normal = normalize(problem)
    height = smallest_peak(problem) // normal.unit
    for order in range(2):
        verdicts = [_search(component, height, order) for component in normal.components]
        assert all(verdict.packing and verdict.packing.peak <= height for verdict in verdicts)
        lower = [_search(component, height - 1, order) for component in normal.components]
        assert any(verdict.is_infeasible for verdict in lower)
        assert all(verdict.is_infeasible or verdict.packing for verdict in lower)


@settings(max_examples=100)
@given(aliased_problems(6))
def test_alternatives_are_different_placements_at_the_bound(problem: Problem) -> None:
    found = list(optimal_placements(problem, 6))
    best = allocate(problem)
    assert len({tuple(placement.offsets.items()) for placement in found}) == len(found) <= 6
    assert bool(found) == (best.peak_bytes == normalize(problem).bound * normalize(problem).unit)
    for placement in found:
        validate_placement(problem, placement)
        assert placement.peak_bytes == placement.bound_bytes == best.peak_bytes


def _search(component: Component, height: int, order: int) -> Verdict:
    search = StackSearch(Stacking(component))
    search.start(height, list(body_orders(component))[order])
    return search.advance(ENOUGH_NODES)


def test_slices_find_what_one_run_finds() -> None:
    (component,) = normalize(read_problem(shared_file("bench", "minimalloc", "C.1048576.csv"))).components
    whole = _search(component, component.bound, 0)
    search = StackSearch(Stacking(component))
    search.start(component.bound, next(iter(body_orders(component))))
    slices = [search.advance(1000)]
    while slices[-1].packing is None:
        slices.append(search.advance(1000))
    assert len(slices) > 1
    assert (slices[-1].packing, sum(verdict.work for verdict in slices)) == (whole.packing, whole.work)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (Problem((Buffer("a", 0, 2, 8), Buffer("b", 3, 4, 6)), aliases=(("a", "b"),)), True),
        (Problem((Buffer("a", 0, 2, 8), Buffer("b", 0, 2, 6, fixed_offset=0))), False),
        (Problem((Buffer("a", 0, 2, 8), Buffer("b", 1, 3, 6)), contiguous=(("a", "b"),)), False),
    ],
)
def test_fixed_and_overhanging_bodies_are_left_to_the_model(problem: Problem, expected: bool) -> None:
    (component,) = normalize(problem).components
    assert is_stackable(component) is expected


def test_shaken_order_is_a_permutation_close_to_the_order_and_repeats_itself() -> None:
    order = list(range(50, 150))
    for seed in range(20):
        found = shaken(order, seed)
        assert sorted(found) == order
        assert max(abs(place + 50 - body) for place, body in enumerate(found)) <= 6
        assert found == shaken(order, seed)
    assert shaken(order, 0) != shaken(order, 1)
    assert shaken(list(range(8)), 2) == [0, 1, 2, 3, 5, 4, 6, 7]


def test_answer_is_the_same_without_numba() -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "if sys.argv[2] == 'plain': sys.modules['numba'] = None\n"
        "from npuc.allocation import allocate, read_problem; from isa.timing.compiled import IS_COMPILED\n"
        "assert IS_COMPILED == (sys.argv[2] == 'compiled')\n"
        "print(allocate(read_problem(Path(sys.argv[1])), 0.003))"
    )
    path = str(shared_file("bench", "minimalloc", "D.1048576.csv"))
    found = [
        subprocess.run(
            [sys.executable, "-c", program, path, how], cwd=ROOT, env=os.environ, capture_output=True, text=True,
            check=True,
        ).stdout
        for how in ("plain", "compiled")
    ]  # fmt: skip
    assert found[0] == found[1]
