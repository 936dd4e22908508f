"""docs/timing-accuracy.md shows the figures of its JSON file, and those of a small set are what both models say now."""

import json

import pytest

from benchmarks.timing_accuracy import PAGE, RESULT, TARGETS, sample, table, with_table
from isa.target_file import load_target


def test_the_page_shows_the_measured_figures() -> None:
    page = PAGE.read_text()
    assert with_table(page, table(json.loads(RESULT.read_text()))) == page, "run python -m benchmarks.timing_accuracy"


@pytest.mark.parametrize("name", TARGETS)
def test_the_small_set_is_current(name: str) -> None:
    measured = json.loads(RESULT.read_text())["sample"][name]
    assert sample(load_target(name)) == measured, "run python -m benchmarks.timing_accuracy"


def test_more_than_500_random_programs_were_measured() -> None:
    rows = json.loads(RESULT.read_text())["programs"].values()
    assert sum(row["programs"] for group in rows for row in group) > 500
