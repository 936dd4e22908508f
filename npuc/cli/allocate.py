"""`npuc allocate`: addresses for the buffers of a CSV file, with a proven bound of the peak."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.console import print_json
from npuc.cli.option import Json, read_bytes
from npuc.errors import DoesNotFit, ImportFailure

if TYPE_CHECKING:
    from npuc.allocation import Placement, Problem

STAGE = "allocate"

ProblemFile = Annotated[Path, typer.Argument(metavar="PROBLEM.csv", help="Buffers: id,lower,upper,size.")]
Capacity = Annotated[str | None, typer.Option(metavar="BYTES", help="Size of the arena, as 1048576 or 512KiB.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="OUT.csv", help="Write the buffers with their offsets.")
]


def allocate(problem: ProblemFile, capacity: Capacity = None, output: Output = None, as_json: Json = False) -> None:
    """Place buffers with live ranges in an arena; the peak comes with a bound that no placement can beat."""
    began = time.process_time()
    question, placement = solve(problem, read_bytes(capacity))
    if output is not None:
        write_placement(output, question, placement)
    result = {
        "schema": "npuc.allocate/1",
        "buffers": len(question.buffers),
        "peak_bytes": placement.peak_bytes,
        "bound_bytes": placement.bound_bytes,
        "status": placement.status,
        "gap_bytes": placement.gap_bytes,
        "cpu_s": round(time.process_time() - began, 3),
    }
    print_json(result) if as_json else print_summary(result)


def solve(path: Path, capacity_bytes: int | None) -> tuple[Problem, Placement]:
    """The problem of a CSV file and its checked placement; DoesNotFit names what is live at the peak."""
    from npuc import allocation

    try:
        problem = allocation.read_problem(path, capacity_bytes)
        placement = allocation.allocate(problem)
    except allocation.InvalidProblem as error:
        raise ImportFailure(str(error), stage=STAGE, hint="write a line id,lower,upper,size for each buffer") from None
    except allocation.CapacityExceeded as error:
        is_proven = error.bound_bytes > error.capacity_bytes
        proof = "no placement fits" if is_proven else "none was found that fits"
        missing = error.needed_bytes - error.capacity_bytes
        raise DoesNotFit(f"{error}; {proof}, proven bound {error.bound_bytes} bytes", stage=STAGE,
                         hint=f"free {missing} bytes at the peak, or raise --capacity") from None  # fmt: skip
    allocation.validate_placement(problem, placement)
    return problem, placement


def write_placement(path: Path, problem: Problem, placement: Placement) -> None:
    """The buffers with an offset column; the file appears whole or not at all."""
    from npuc.allocation import write_csv

    temporary = path.with_name(f"{path.name}.tmp")
    write_csv(temporary, problem, placement)
    temporary.replace(path)


def print_summary(result: Mapping[str, Any]) -> None:
    """The result for a reader."""
    gap = f", {result['gap_bytes']:,} above the bound" if result["gap_bytes"] else ""
    print(f"{result['buffers']} buffers in {result['peak_bytes']:,} bytes: {result['status']}{gap}")
