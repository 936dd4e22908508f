"""The acceptance checks of trust: the stepped model, the Verilog, and the mutation test."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from benchmarks import mutation, timing_accuracy
from benchmarks.checks import Outcome
from benchmarks.process import run

PROGRAMS = 56
"""Random programs of each kind and target: 504 in all."""


def stepped(error: float, same_class: float, _: Path) -> Outcome:
    """The scoreboard against the stepped model: random programs, and networks, on three targets; renews the page."""
    started = time.process_time()
    result = timing_accuracy.measure(PROGRAMS)
    timing_accuracy.write(result)
    programs = [row for rows in result["programs"].values() for row in rows]
    networks = [row for rows in result["networks"].values() for row in rows]
    outcome = Outcome(cpu_s=round(time.process_time() - started, 3))
    outcome.figures = {
        "programs": sum(row["programs"] for row in programs),
        "worst_program_error": max(row["max"] for row in programs),
        "networks": len(networks),
        "worst_network_error": max(abs(row["error"]) for row in networks),
        "least_same_class": min(row["same_class"] for row in (*programs, *networks)),
    }
    figures = outcome.figures
    outcome.require(figures["programs"] >= 500 and figures["worst_program_error"] <= error)
    outcome.require(figures["worst_network_error"] <= error and figures["least_same_class"] >= same_class)
    return outcome


def verilog(_: Path) -> Outcome:
    """The tests of the Verilog: instructions, copies, coded weights, synchronization, and whole networks."""
    outcome = Outcome()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/rtl"]
    found = outcome.add(run(command, statuses=(0, 1)))
    counts = {name: int(n) for n, name in re.findall(r"(\d+) (passed|failed|skipped)", found.out)}
    outcome.figures = {name: counts.get(name, 0) for name in ("passed", "failed", "skipped")}
    outcome.require(found.status == 0 and not outcome.figures["skipped"])
    return outcome


def mutants(least: int, _: Path) -> Outcome:
    """The mutation test in full; networks that have a result in docs/mutation.json are not run again."""
    outcome = Outcome()
    outcome.add(run([sys.executable, "-m", "benchmarks.mutation"], statuses=(0, 1)))
    results = json.loads(mutation.RESULTS.read_text(encoding="utf-8"))
    rows = results["networks"].values()
    outcome.figures = {"networks": len(rows), **results["total"]["all"]}
    outcome.figures |= {name: sum(len(row[name]) for row in rows) for name in ("escaped", "false_alarms")}
    outcome.require(outcome.figures["mutants"] >= least)
    outcome.require(not outcome.figures["escaped"] and not outcome.figures["false_alarms"])
    return outcome
