"""The criteria as acceptance checks, and the time that compiling takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.anchors.criterion import REFERENCE, Criterion
from benchmarks.anchors.store import Store
from benchmarks.anchors.table import write_page
from benchmarks.checks import Outcome
from benchmarks.network import tflite_model
from benchmarks.process import npuc
from benchmarks.synthetic import SHAPE, conv_chain, residual_chain

REPEATS = 2
BUDGETS = ("512KiB", "2MiB")

SMALL = ("mlperf_resnet8", "mlperf_vww", "mlperf_kws", "mlperf_ad", "mlperf_sww")
"""The networks of MLPerf Tiny."""
LARGE = ("xtensa_mbv2_100_224",)

LAYERS = (75, 150, 300)
"""Convolutions of the synthetic networks."""


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


def compile_growth(limit: float, folder: Path) -> Outcome:
    """CPU seconds of compiling synthetic networks of LAYERS in 128 KiB: with each doubling they grow by at most `limit`
    times what the layers do. Over both doublings at once, what every start costs would hide growth."""
    outcome = Outcome(figures={"limit_of_linear": limit})
    np.save(folder / "data.npy", np.random.default_rng(0).standard_normal((4, *SHAPE[1:])).astype(np.float32))
    for name, make in (("chain", conv_chain), ("residual", residual_chain)):
        cpu_s = []
        for n_layers in LAYERS:
            model, table = folder / f"{name}{n_layers}.onnx", folder / f"{name}{n_layers}.json"
            model.write_bytes(make(n_layers))
            outcome.add(npuc("calibrate", model, "--data", folder / "data.npy", "-o", table))
            cpu_s.append(outcome.add(npuc("compile", model, "--calibration", table, "-t", REFERENCE, "--sram", "128KiB",
                                          "--no-lock", "-o", folder / "growth.npu", "--json")).cpu_s)  # fmt: skip
        steps = zip(LAYERS, LAYERS[1:], cpu_s, cpu_s[1:], strict=False)
        of_linear = max(after / before * fewer / more for fewer, more, before, after in steps)
        outcome.figures[name] = {**{f"{n}_layers_cpu_s": s for n, s in zip(LAYERS, cpu_s, strict=True)},
                                 "300_over_150": round(cpu_s[-1] / cpu_s[1], 2),
                                 "of_linear": round(of_linear, 3)}  # fmt: skip
        outcome.require(of_linear <= limit)
    return outcome
