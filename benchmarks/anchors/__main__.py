"""Schedule quality beside Arm Vela: `python -m benchmarks.anchors [--only TEXT] [--page]`.

Records go to docs/anchors.json one by one, with the commit and a digest of the sources that were measured: what
is there for the present sources is not measured again. docs/anchors.md is written from them. Exit status 1: a
requirement is not met.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.anchors.cell import Cell, Record
from benchmarks.anchors.criteria import criteria
from benchmarks.anchors.store import Store
from benchmarks.anchors.table import write_page
from benchmarks.network import SHARED


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.anchors", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="judge the criteria whose names contain TEXT")
    parser.add_argument("--page", action="store_true", help="write docs/anchors.md from the records, measure nothing")
    options = parser.parse_args()
    if not SHARED.is_dir():
        sys.exit(f"no shared models and data at {SHARED}; set NPUC_SHARED")
    failed = 0
    with Store(on_measured=show) as store:
        for criterion in criteria():
            if options.page or options.only not in criterion.name:
                continue
            verdict = criterion.judge(store.measure)
            failed += not verdict.ok
            shown = [f"{key} {value}" for key, value in verdict.figures.items() if not key.endswith("ratios")]
            print(f"{'met ' if verdict.ok else 'FAIL'} {criterion.name:<24} {', '.join(shown)[:400]}", flush=True)
        write_page(store)
    sys.exit(failed > 0)


def show(cell: Cell, record: Record) -> None:
    """A line on stderr for each cell that was measured."""
    found = record.get("cycles", str(record.get("error"))[:90])
    print(f"  {cell.network} {cell.key}: {found}, {record.get('differ')} differ", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
