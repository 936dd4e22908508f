"""The criteria as acceptance checks, and the time that compiling takes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.anchors.criterion import REFERENCE, Criterion
from benchmarks.anchors.store import Store
from benchmarks.anchors.table import write_page
from benchmarks.checks import Outcome
from benchmarks.network import tflite_model
from benchmarks.process import npuc

REPEATS = 2
BUDGETS = ("512KiB", "2MiB")

SMALL = ("mlperf_resnet8", "mlperf_vww", "mlperf_kws", "mlperf_ad", "mlperf_sww")
"""The networks of MLPerf Tiny."""
LARGE = ("xtensa_mbv2_100_224",)


def anchored(criterion: Criterion, folder: Path) -> Outcome:
    """Judge a criterion with the records of docs/anchors.json, and measure those that are missing."""
    with Store() as store:
        verdict = criterion.judge(store.measure)
        write_page(store)
    return Outcome(verdict.ok, verdict.figures, [f"python -m benchmarks.anchors --only {criterion.name}"])


def compile_speed(names: tuple[str, ...], search_s: float, lock_s: float, folder: Path) -> Outcome:
    """CPU seconds of whole processes, each the least of several: with a search, and from the lock that it leaves."""
    outcome = Outcome(figures={"limit_search_cpu_s": search_s, "limit_lock_cpu_s": lock_s})
    program = folder / "speed.npu"
    for name in names:
        for budget in BUDGETS:
            arguments = ("compile", tflite_model(name), "-t", REFERENCE, "--sram", budget, "-o", program, "--json")
            search = min(outcome.add(npuc(*arguments, "--update-lock")).cpu_s for _ in range(REPEATS))
            lock = min(outcome.add(npuc(*arguments)).cpu_s for _ in range(REPEATS))
            outcome.figures[f"{name} {budget}"] = f"{search} / {lock}"
            outcome.require(search <= search_s and lock <= lock_s)
    return outcome
