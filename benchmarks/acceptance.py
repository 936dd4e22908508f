"""Every acceptance check, one row each: `python -m benchmarks.acceptance [--only TEXT] [--again] [--list]`.

Results go to docs/acceptance.json after every check, with the commit that was measured; a check that passed at this
commit is not run again unless `--again` says so. `build/acceptance` holds the intermediate files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks import checks, firmware_checks, kernel_checks, timing_checks
from benchmarks.anchors import rows
from benchmarks.anchors.criteria import criteria
from benchmarks.commit import measured_commit
from benchmarks.network import DETECTORS, NETWORKS, ROOT, SHARED, TFLITE
from benchmarks.process import Failed

RESULTS = ROOT / "docs" / "acceptance.json"
FOLDER = ROOT / "build" / "acceptance"
SCHEMA = "npuc.acceptance/1"


@dataclass(frozen=True)
class Step:
    """One acceptance check: a name to select it by, and what is required."""

    name: str
    requirement: str
    check: checks.Check


def steps() -> Iterator[Step]:
    """All checks, the quick ones first."""
    for target, limit in (("u55-like", 1.6), ("edge-256", 1.35)):
        yield Step(
            f"schedule/{target}", f"geometric mean of cycles over the bound at 2 MiB <= {limit}; streams are small",
            partial(checks.schedule_quality, target, limit),
        )  # fmt: skip
    for criterion in criteria():
        yield Step(f"anchors/{criterion.name}", criterion.requirement, partial(rows.anchored, criterion))
    for label, names, search_s, lock_s in (("small", rows.SMALL, 4.0, 1.5), ("large", rows.LARGE, 15.0, 4.0)):
        yield Step(f"anchors/speed/{label}", f"compile <= {search_s} CPU s, from a lock <= {lock_s}",
                   partial(rows.compile_speed, names, search_s, lock_s))  # fmt: skip
    yield Step("anchors/speed/growth", "75, 150, 300 synthetic layers: a doubling takes <= 1.2 x 2 times the CPU s",
               partial(rows.compile_growth, 1.2))  # fmt: skip
    for name in TFLITE:
        for target in checks.TARGETS:
            yield Step(f"tflite/{name}/{target}", "every output byte equals TFLite Micro's on five samples",
                       partial(checks.tflite_exact, name, target))  # fmt: skip
    for network in NETWORKS:
        for target in checks.TARGETS:
            yield Step(f"onnx/{network.name}/{target}", "bit-exact on every test sample; allocation optimal",
                       partial(checks.bit_exact, network, target))  # fmt: skip
    yield from witness_steps()
    yield Step("verify/speed", "squeezenet11_224: the static verifier takes <= 0.5 CPU s",
               partial(checks.proof_speed, 0.5))  # fmt: skip
    yield Step("timing/stepped", "504 random programs, 14 networks, 3 targets: within 2 %, same stall class >= 95 %",
               partial(timing_checks.stepped, 0.02, 0.95))  # fmt: skip
    yield Step("timing/rtl", "the Verilog: bit-exact, MAC instructions and copies 0 cycles off, networks within 3 %",
               timing_checks.verilog)  # fmt: skip
    yield Step("mutation", ">= 2,000 mutants of 12 networks: none that differs escapes; no false alarms",
               partial(timing_checks.mutants, 2000))  # fmt: skip
    yield Step("allocate", "the hard instances in <= 10 CPU s each: all fit, all but D and J optimal",
               checks.hard_allocation)  # fmt: skip
    yield Step("accuracy/mlperf_ic_resnet8", "top-1 within 0.7 points of float, SQNR >= 27 dB",
               partial(checks.accuracy, "mlperf_ic_resnet8", 0.7, 27.0))  # fmt: skip
    yield Step("accuracy/mnist_cntk", "top-1 within 0.2 points of float on 9,900 images",
               partial(checks.accuracy, "mnist_cntk", 0.2, 0.0))  # fmt: skip
    yield Step("concat", "100 inputs: no Concat above 63; no conversion between convolutions", checks.wide_concat)
    for name in ("mlperf_ic_resnet8", "fsdd_dscnn", "squeezenet11_224"):
        yield Step(f"same-bytes/{name}", "one sha256 for every hash seed, core count and load, and from the lock",
                   partial(checks.same_bytes, name))  # fmt: skip
    yield Step(
        "speed", "squeezenet11_224: simulate <= 1 s, compile <= 20 s, from lock <= 4 s, <= 1.5 GiB", checks.speed
    )
    yield Step("demo", "make demo does all its set-up", checks.make("demo"))
    yield Step("test", "make test does all its set-up", checks.make("test"))
    yield Step("ci", ".ci/run is green in a clean clone", checks.clean_clone)


def witness_steps() -> Iterator[Step]:
    """Kernels, verification on all executors, mixed programs, and firmware."""
    proven = "proven for every timing; every layer equal on all executors, Arm included"
    for network in (*TFLITE, *NETWORKS):
        label = network if isinstance(network, str) else network.name
        yield Step(f"verify/{label}", proven, partial(checks.verified, network, "edge-256"))
    for name in ("lenet300", "movenet_lightning"):
        yield Step(f"mixed/{name}", proven, partial(checks.verified, name, "edge-256"))
    for network in DETECTORS:
        yield Step(f"mixed/{network.name}", f"{proven}; bit-exact on the photographs",
                   partial(checks.mixed, network, "edge-256"))  # fmt: skip
    yield Step("kernels/speed", "an inference in <= 1 CPU s: squeezenet11_224 on the host, ResNet8 on a Cortex-M",
               partial(kernel_checks.kernel_speed, 1.0))  # fmt: skip
    yield Step("kernels/random", "2,000 random operators of each family: the same bytes on every core and compiler",
               partial(kernel_checks.random_kernels, 2000))  # fmt: skip
    yield Step("firmware/size", "driver on a Cortex-M33: <= 8 KiB of code, 512 B of RAM; stack as in the docs; no heap",
               firmware_checks.size)  # fmt: skip
    yield Step("firmware/example", "a clean checkout, gcc and zig: the simulator's bytes; a second build does nothing",
               firmware_checks.example)  # fmt: skip


def read_results() -> dict[str, Any]:
    """Results by name of the check."""
    if not RESULTS.exists():
        return {}
    return {row["name"]: row for row in json.loads(RESULTS.read_text(encoding="utf-8"))["checks"]}


def write_results(rows: dict[str, Any], order: list[str]) -> None:
    """Write all results, in the order of the checks."""
    listed = [rows[name] for name in order if name in rows]
    passed = sum(row["ok"] for row in listed)
    document = {"schema": SCHEMA, "passed": passed, "of": len(order), "checks": listed}
    temporary = RESULTS.with_suffix(".tmp")
    temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    temporary.replace(RESULTS)


def perform(step: Step, commit: str) -> dict[str, Any]:
    """Run one check; a command that fails makes it fail."""
    try:
        outcome = step.check(FOLDER)
    except Failed as error:
        outcome = checks.Outcome(ok=False, figures={"error": str(error)})
    return {
        "name": step.name, "requirement": step.requirement, "ok": outcome.ok, "commit": commit, "cpu_s": outcome.cpu_s,
        "figures": outcome.figures, "commands": outcome.commands,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.acceptance", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="run the checks whose names contain TEXT")
    parser.add_argument("--again", action="store_true", help="run checks that passed at this commit as well")
    parser.add_argument("--list", action="store_true", help="list the checks and stop")
    options = parser.parse_args()
    every = list(steps())
    if options.list:
        print("\n".join(f"{step.name:<45} {step.requirement}" for step in every))
        return
    if not SHARED.is_dir():
        sys.exit(f"no shared models and data at {SHARED}; set NPUC_SHARED")
    FOLDER.mkdir(parents=True, exist_ok=True)
    commit, failed = measured_commit(), 0
    for step in every:
        if options.only not in step.name:
            continue
        row = read_results().get(step.name)
        if options.again or row is None or not is_settled(row, commit):
            row = perform(step, commit)
            write_results({**read_results(), step.name: row}, [item.name for item in every])
        failed += not row["ok"]
        print(f"{'pass' if row['ok'] else 'FAIL'}  {step.name:<45} {brief(row)}", flush=True)
    sys.exit(failed > 0)


def is_settled(row: dict[str, Any], commit: str) -> bool:
    """Whether the check passed at this commit, with nothing changed."""
    return bool(row["ok"]) and row["commit"] == commit and "+" not in commit


def brief(row: dict[str, Any]) -> str:
    """The figures of a check on one line, nested ones left out."""
    shown = [f"{key} {value}" for key, value in row["figures"].items() if isinstance(value, int | float | str)]
    return ", ".join(text for text in shown if not text.startswith("sha256"))[:300]


if __name__ == "__main__":
    main()
