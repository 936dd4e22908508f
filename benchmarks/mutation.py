"""The mutation test in full: `python -m benchmarks.mutation [--only TEXT] [--again]`; resumes network by network.

Results go to docs/mutation.json after every network; docs/mutation.md says what they mean. Those of other sources than
the present ones are measured again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from benchmarks.commit import source_digest
from benchmarks.network import ROOT
from tests.mutation.campaign import Campaign, Result
from tests.mutation.mutants import mutants
from tests.mutation.networks import NETWORKS, Network, compiled

RESULTS = ROOT / "docs" / "mutation.json"
SCHEMA = "npuc.mutation/1"


def main() -> int:
    """Run what has no result yet; 1 when a mutant escaped or an unmutated program was reported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"schema": SCHEMA, "sources": source_digest(), "networks": {}}
    if RESULTS.exists() and (found := json.loads(RESULTS.read_text())).get("sources") == results["sources"]:
        results = found
    for network in NETWORKS:
        if arguments.only in network.name and (arguments.again or network.name not in results["networks"]):
            results["networks"][network.name] = measure(network)
            results["total"] = total(results["networks"].values())
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results.get("total"), indent=1))
    return int(any(row["escaped"] or row["false_alarms"] for row in results["networks"].values()))


def measure(network: Network) -> dict[str, Any]:
    """All mutants of a network."""
    start, data = time.process_time(), compiled(network)
    campaign = Campaign(data)
    found = [campaign.examine(mutant) for mutant in mutants(data)]
    print(f"{network.name}: {len(found)} mutants, {time.process_time() - start:.0f} CPU s", flush=True)
    escaped = [asdict(result) for result in found if result.escaped]
    return {"false_alarms": campaign.false_alarms, "mutants": counts(found), "escaped": escaped}


def counts(found: list[Result]) -> dict[str, dict[str, int]]:
    """By kind of mutant: how many there are, differ, and are caught by whom."""
    table: dict[str, Counter[str]] = {}
    for result in found:
        row = table.setdefault(result.kind, Counter())
        caught = bool(result.verifier or result.strict)
        row.update(columns(result, caught))
    return {kind: dict(row) for kind, row in table.items()}


def columns(result: Result, caught: bool) -> list[str]:
    """The figures that a result counts for."""
    pairs = {
        "mutants": True,
        "differ": result.differs,
        "differ_only_in_random_timings": result.differs and result.timing.startswith("random"),
        "caught_by_verifier": result.differs and bool(result.verifier),
        "caught_by_strict": result.differs and bool(result.strict),
        "caught_by_strict_only": result.differs and bool(result.strict) and not result.verifier,
        "escaped": result.escaped,
        "reported_but_never_differ": caught and not result.differs,
        "silent_and_never_differ": not caught and not result.differs,
    }
    return [name for name, holds in pairs.items() if holds]


def total(rows: Any) -> dict[str, dict[str, int]]:
    """The sum over networks, by kind of mutant and of all."""
    table: dict[str, Counter[str]] = {}
    for row in rows:
        for kind, figures in row["mutants"].items():
            for name in (kind, "all"):
                table.setdefault(name, Counter()).update(figures)
    return {kind: dict(figures) for kind, figures in sorted(table.items())}


if __name__ == "__main__":
    raise SystemExit(main())
