"""Peak, bound, status and CPU seconds of every allocation instance: `python -m benchmarks.allocation OUT.json`.

Reads `bench/` of the shared folder (`../shared` or `$NPUC_SHARED`), prints a table and writes JSON. The hard instances
of `minimalloc` run with the capacity in their file name; every placement goes through the checker.
"""

import json
import os
import sys
import time
from pathlib import Path

from npuc.allocation import CapacityExceeded, allocate, read_problem, validate_placement

ROOT = Path(__file__).resolve().parent.parent
SHARED = (ROOT / os.environ.get("NPUC_SHARED", "../shared")).resolve()
FOLDERS = ("nets", "liveranges", "minimalloc")

Row = dict[str, str | int | float]


def measure(path: Path) -> Row:
    """One instance; `gap_bytes` counts from the bound, `cpu_s` is process time without reading and checking."""
    capacity_bytes = _capacity(path)
    problem = read_problem(path, capacity_bytes)
    start = time.process_time()
    try:
        placement = allocate(problem)
    except CapacityExceeded as error:
        outcome: Row = {"peak_bytes": error.needed_bytes, "bound_bytes": error.bound_bytes, "status": "not solved"}
    else:
        outcome = {key: getattr(placement, key) for key in ("peak_bytes", "bound_bytes", "status")}
    cpu_s = round(time.process_time() - start, 3)
    if outcome["status"] != "not solved":
        validate_placement(problem, placement)
    return {"instance": f"{path.parent.name}/{path.stem}", "buffers": len(problem.buffers), **outcome, "cpu_s": cpu_s}


def _capacity(path: Path) -> int | None:
    suffix = path.stem.rpartition(".")[2]
    return int(suffix) if suffix.isdigit() else None


def print_row(row: Row) -> None:
    name = str(row["instance"])
    print(
        f"{name:<70} {row['buffers']:>6} {row['peak_bytes']:>9} {row['bound_bytes']:>9} "
        f"{row['status']:<10} {row['cpu_s']:>8.3f}"
    )


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.allocation OUT.json")
    paths = [path for folder in FOLDERS for path in sorted((SHARED / "bench" / folder).glob("*.csv"))]
    if not paths:
        sys.exit(f"no instances in {SHARED / 'bench'}; set NPUC_SHARED")
    rows = []
    for path in paths:
        rows.append(measure(path))
        print_row(rows[-1])
    Path(sys.argv[1]).write_text(json.dumps({"schema": "npuc.benchmark.allocation/1", "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
