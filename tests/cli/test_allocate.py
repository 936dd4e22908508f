"""`npuc allocate`: the public CSV format in and out, and a clear word when the buffers do not fit."""

import json
import re
from pathlib import Path

import pytest

from npuc.allocation import Placement, read_offsets, read_problem, validate_placement
from tests.cli.conftest import Npuc

PROBLEM = "id,lower,upper,size\ninput,0,2,300\nweights,0,1,50\nhidden,1,3,200\noutput,2,4,100\n"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.csv"
    path.write_text(PROBLEM)
    return path


def test_allocate_json(npuc: Npuc, problem: Path) -> None:
    result = npuc("allocate", problem, "--capacity", "1KiB", "--json")
    found = json.loads(result.out)
    assert result.status == 0
    assert found.pop("cpu_s") >= 0
    assert found == {
        "schema": "npuc.allocate/1", "buffers": 4, "peak_bytes": 500, "bound_bytes": 500, "status": "optimal",
        "gap_bytes": 0,
    }  # fmt: skip


def test_the_written_file_is_a_placement_of_the_problem(npuc: Npuc, problem: Path, tmp_path: Path) -> None:
    assert "4 buffers in 500 bytes: optimal" in npuc("allocate", problem, "-o", "out.csv").out
    validate_placement(read_problem(problem, 500), Placement(read_offsets(tmp_path / "out.csv"), 500, 500))
    assert npuc("allocate", "out.csv", "-o", "again.csv").status == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.csv", "out.csv", "problem.csv"]


def test_buffers_that_do_not_fit_are_named(npuc: Npuc, problem: Path, tmp_path: Path) -> None:
    result = npuc("allocate", problem, "--capacity", "400", "-o", "out.csv")
    assert (result.status, result.out) == (1, "")
    assert "need 500 bytes, capacity 400 bytes; live at the peak: input (300 bytes), hidden (200 bytes)" in result.err
    assert re.search(r"no placement fits, proven bound 500 bytes\n.*\n  hint: free 100 bytes", result.err)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("id,lower\n", "problem.csv:1: header"), (PROBLEM + "input,0,1,1\n", "problem.csv:6: id input is already used"),
        (PROBLEM + "late,3,3,1\n", "problem.csv:6: .*empty"), (PROBLEM + "wide,0,1,x\n", "problem.csv:6: size is 'x'"),
    ],
    ids=["header", "twice", "empty", "size"],
)  # fmt: skip
def test_files_that_are_no_problem(text: str, complaint: str, npuc: Npuc, problem: Path) -> None:
    problem.write_text(text)
    result = npuc("allocate", problem)
    assert result.status == 1
    assert re.search(complaint, result.err)
    assert "hint: " in result.err


def test_capacities_that_are_no_size(npuc: Npuc, problem: Path) -> None:
    assert npuc("allocate", problem, "--capacity", "-5").status == 2
    assert npuc("allocate", problem, "--capacity", "900000GiB").status == 1
    assert npuc("allocate", "missing.csv").status == 1
