"""The acceptance checks: each runs commands as a user would, and gives figures and a verdict."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench import measure_compile, measure_simulation
from benchmarks.network import BY_NAME, SHARED, TFLITE, Network, golden_inputs, tflite_model
from benchmarks.process import Run, npuc, run

TARGETS = ("edge-256", "u55-like")
PEAK_MACS = 256


@dataclass
class Outcome:
    """What a check found: its verdict, figures, and the commands that gave them."""

    ok: bool = True
    figures: dict[str, Any] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    cpu_s: float = 0.0

    def add(self, finished: Run) -> Run:
        """Record a command."""
        self.commands.append(finished.command)
        self.cpu_s = round(self.cpu_s + finished.cpu_s, 3)
        return finished

    def require(self, condition: bool) -> None:
        """The check fails unless every condition holds."""
        self.ok = self.ok and bool(condition)


Check = Callable[[Path], Outcome]


def bit_exact(network: Network, target: str, folder: Path) -> Outcome:
    """Compile an ONNX network and check every test sample; the allocation must be optimal."""
    outcome = Outcome()
    program = folder / f"{network.name}.{target}.npu"
    compiled = outcome.add(npuc("compile", network.model, *network.compile_arguments(folder), "--target", target,
                                "--no-lock", "-o", program, "--json")).document  # fmt: skip
    checked = outcome.add(
        npuc("run", program, *network.run_arguments(folder), "--check", "--json", statuses=(0, 1))
    ).document
    outcome.figures = {"samples": checked["samples"], "check": checked["check"],
                       "first_difference": checked["first_difference"], **summary(compiled)}  # fmt: skip
    outcome.require(checked["check"] == "bit-exact")
    outcome.require(compiled["sram"]["status"] == "optimal")
    return outcome


def summary(compiled: dict[str, Any]) -> dict[str, Any]:
    """The figures of a compilation that a reader wants to see."""
    cycles = compiled["cycles"]
    return {
        "cycles": cycles["predicted"], "ratio": round(cycles["predicted"] / cycles["bound"], 3),
        "sram_peak_bytes": compiled["sram"]["peak_bytes"], "sram_status": compiled["sram"]["status"],
        "transdata_count": compiled["transdata_count"], "sha256": compiled["sha256"],
    }  # fmt: skip


def tflite_exact(name: str, target: str, folder: Path) -> Outcome:
    """Compile a TFLite network; its outputs must be those of TFLite Micro, byte by byte."""
    outcome = Outcome()
    program, outputs = folder / f"{name}.{target}.npu", folder / f"{name}.{target}.npz"
    samples, expected = golden_inputs(name, folder)
    compiled = outcome.add(npuc("compile", tflite_model(name), "--target", target, "--no-lock", "-o", program,
                                "--json")).document  # fmt: skip
    checked = outcome.add(npuc("run", program, "--input", samples, "--output", outputs, "--check", "--json")).document
    with np.load(outputs) as archive:
        got = [archive[key] for key in archive.files]
    different = sum(int((array != np.concatenate(want)).sum()) for array, want in zip(got, expected, strict=True))
    outcome.figures = {"samples": checked["samples"], "check": checked["check"], "bytes_that_differ": different,
                       **summary(compiled)}  # fmt: skip
    outcome.require(checked["check"] == "bit-exact" and different == 0 and checked["samples"] == 5)
    outcome.require(compiled["sram"]["status"] == "optimal")
    return outcome


def verified(network: Network | str, target: str, folder: Path) -> Outcome:
    """Proven for every timing; reference = simulator = C on the host = Cortex-M4 = M33 = aarch64, every layer.

    A TFLite network is given by its name.
    """
    outcome = Outcome()
    if isinstance(network, str):
        name, source = network, [str(tflite_model(network))]
    else:
        name, source = network.name, [str(network.model), *network.compile_arguments(folder)]
    program = folder / f"{name}.{target}.verify.npu"
    compiled = outcome.add(npuc("compile", *source, "--target", target, "--no-lock", "-o", program, "--json")).document
    found = outcome.add(npuc("verify", program, "--json", statuses=(0, 1))).document
    outcome.figures = {key: found[key] for key in ("proof_cpu_s", "races", "findings", "skipped")}
    cycles = compiled["cycles"]
    outcome.figures |= {"arm_nodes": len(compiled["arm_nodes"]), "arm_cycles": cycles["arm"],
                        "cycles": cycles["predicted"], "npu_mac_share": compiled["npu_mac_share"]}  # fmt: skip
    outcome.figures |= {name: row["first_difference"] or f"{row['layers']} layers, {row['cpu_s']} s"
                        for name, row in found["executors"].items()}  # fmt: skip
    outcome.require(found["ok"] and not found["skipped"] and len(found["executors"]) == 6)
    return outcome


def mixed(network: Network, target: str, folder: Path) -> Outcome:
    """As `verified`, and bit-exact on every test sample, whatever runs on the Arm core."""
    outcome, program = verified(network, target, folder), folder / f"{network.name}.{target}.verify.npu"
    checked = outcome.add(
        npuc("run", program, *network.run_arguments(folder), "--check", "--json", statuses=(0, 1))
    ).document
    outcome.figures |= {key: checked[key] for key in ("samples", "check", "first_difference")}
    outcome.require(checked["check"] == "bit-exact")
    return outcome


def proof_speed(limit_cpu_s: float, folder: Path) -> Outcome:
    """squeezenet11_224: what the static verifier takes of a compilation."""
    outcome, network = Outcome(), BY_NAME["squeezenet11_224"]
    compiled = outcome.add(npuc("compile", network.model, *network.compile_arguments(folder), "--target", "edge-256",
                                "--no-lock", "-o", folder / "proof.npu", "--json")).document  # fmt: skip
    outcome.figures = {key: compiled[key] for key in ("proof_cpu_s", "cpu_s", "proofs")}
    outcome.require(compiled["proof_cpu_s"] <= limit_cpu_s)
    return outcome


def hard_allocation(folder: Path) -> Outcome:
    """The hard instances at their capacity in 10 CPU seconds each: all fit, C is optimal; the peaks of D and J."""
    outcome = Outcome()
    for path in sorted((SHARED / "bench" / "minimalloc").glob("*.csv")):
        name, _, capacity = path.stem.partition(".")
        finished = outcome.add(npuc("allocate", path, "--capacity", capacity, "--json", "-o", folder / path.name))
        outcome.figures[name] = finished.document["peak_bytes"]
        outcome.require(finished.cpu_s <= 10 and (finished.document["status"] == "optimal" or name in ("D", "J")))
    outcome.require(len(outcome.figures) == 11 and outcome.figures.get("C") == 1039360)
    return outcome


def accuracy(name: str, points: float, sqnr_db: float, folder: Path) -> Outcome:
    """Top-1 within `points` of float, SQNR at least `sqnr_db`."""
    outcome, network = Outcome(), BY_NAME[name]
    program = folder / f"{name}.accuracy.npu"
    outcome.add(npuc("compile", network.model, *network.compile_arguments(folder), "--target", "edge-256",
                     "--no-lock", "-o", program))  # fmt: skip
    data = network.test_source(folder)
    found = outcome.add(
        npuc("accuracy", network.model, "--program", program, "--data", data, "--labels", data, "--json")
    ).document
    lost = 100 * (found["top1_float"] - found["top1_int8"])
    outcome.figures = {key: found[key] for key in ("samples", "sqnr_db", "metric", "top1_float", "top1_int8")}
    outcome.figures |= {"points_lost": round(lost, 3), "limit_points": points, "limit_sqnr_db": sqnr_db}
    outcome.require(lost <= points and (found["sqnr_db"] is None or found["sqnr_db"] >= sqnr_db))
    return outcome


def schedule_quality(target: str, limit: float, folder: Path) -> Outcome:
    """Cycles of the TFLite networks at 2 MiB over max(MACs / 256, raw weight bytes); the size of their streams."""
    outcome, ratios = Outcome(), {}
    for name in TFLITE:
        found = outcome.add(npuc("compile", tflite_model(name), "--target", target, "--sram", "2MiB", "--no-lock",
                                 "-o", folder / "quality.npu", "--json")).document  # fmt: skip
        weights = found["flash"]["weights_raw_bytes"]
        ratios[name] = found["cycles"]["predicted"] / max(found["macs"] / PEAK_MACS, weights)
        stream, allowed = found["flash"]["stream_bytes"], max(0.15 * weights, 4096)
        outcome.figures[name] = {"cycles": found["cycles"]["predicted"], "ratio": round(ratios[name], 4),
                                 "stream_bytes": stream, "stream_limit_bytes": int(allowed),
                                 "sram_status": found["sram"]["status"]}  # fmt: skip
        outcome.require(stream <= allowed and found["sram"]["status"] == "optimal")
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    outcome.figures |= {"geometric_mean": round(mean, 4), "limit": limit}
    outcome.require(mean <= limit)
    return outcome


def wide_concat(folder: Path) -> Outcome:
    """A Concat of 100 inputs becomes Concats of at most 63; a chain of convolutions has no conversion."""
    from benchmarks.synthetic import concat_of_100, conv_chain

    outcome = Outcome()
    for name, model in (("concat", concat_of_100()), ("chain", conv_chain())):
        path = folder / f"{name}.onnx"
        path.write_bytes(model)
        np.save(folder / f"{name}.npy", np.random.default_rng(0).standard_normal((4, 32, 8, 8)).astype(np.float32))
        data, program = folder / f"{name}.npy", folder / f"{name}.npu"
        outcome.add(npuc("compile", path, "--data", data, "--target", "edge-256", "--no-lock", "-o", program,
                         "--dump-after", "legalize", "--dump-dir", folder / name))  # fmt: skip
        outcome.require(outcome.add(npuc("run", program, "--input", data, "--check")).status == 0)
    text = "".join(path.read_text() for path in (folder / "concat").glob("*-legalize.txt"))
    widths = [line.count(",") + 1 for line in re.findall(r"= Concat\([^)]*\) \(([^)]*)\)", text)]
    copies = outcome.add(npuc("inspect", folder / "chain.npu", "--json")).document["transdata_count"]
    outcome.figures = {"concat_widths": widths, "transdata_in_conv_chain": copies}
    outcome.require(len(widths) > 1 and max(widths) <= 63 and copies == 0)
    return outcome


LOCKED = """
import sys
from npuc.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    print("solver loaded" if "ortools" in sys.modules else "no solver", file=sys.stderr)
    raise
"""


def same_bytes(name: str, folder: Path) -> Outcome:
    """One sha256 under two hash seeds, on one core and two, under load, and from the lock without a solver."""
    outcome, network = Outcome(), BY_NAME[name]
    table, program = folder / f"{name}.json", folder / f"{name}.same.npu"
    outcome.add(npuc("calibrate", network.model, *network.compile_arguments(folder), "-o", table))
    shape = ["--shape", network.shape] if network.shape else []
    arguments: list[str | Path] = ["compile", network.model, "--calibration", table, *shape, "--target", "edge-256"]
    arguments += ["-o", program, "--json"]
    hashes = {}
    for label, prefix, seed in (("seed 0", ["taskset", "-c", "0"], "0"), ("seed 1", ["taskset", "-c", "0"], "1"),
                                ("two cores", [], "2"), ("under load", ["sh", "-c", LOAD, "sh"], "3")):  # fmt: skip
        command = [*prefix, Path(sys.executable).with_name("npuc"), *arguments, "--update-lock"]
        hashes[label] = outcome.add(run(command, environment={"PYTHONHASHSEED": seed})).document["sha256"]
    locked = outcome.add(run([sys.executable, "-c", LOCKED, *arguments]))
    hashes["from lock"] = locked.document["sha256"]
    outcome.figures = {"sha256": hashes, "solver": locked.err.strip().splitlines()[-1]}
    outcome.require(len(set(hashes.values())) == 1 and outcome.figures["solver"] == "no solver")
    return outcome


LOAD = """
for i in 1 2 3 4; do sh -c 'while :; do :; done' & busy="$busy $!"; done
"$@"; status=$?
kill $busy
exit $status
"""


def speed(folder: Path) -> Outcome:
    """squeezenet11_224: seconds and memory of compiling, compiling from the lock, and one simulated inference."""
    network = BY_NAME["squeezenet11_224"]
    figures = {**measure_compile(network, "edge-256", folder), **measure_simulation(network, "edge-256", folder)}
    limits = {"simulate_cpu_s": 1.0, "compile_cpu_s": 20.0, "lock_cpu_s": 4.0, "peak_bytes": 1.5 * 2**30}
    figures["peak_bytes"] = max(figures["compile_peak_bytes"], figures["simulate_peak_bytes"])
    return Outcome(all(figures[key] <= limit for key, limit in limits.items()), {**figures, "limits": limits})


def make(*targets: str) -> Check:
    """A check that is one or more targets of the Makefile."""

    def check(folder: Path) -> Outcome:
        outcome = Outcome()
        finished = outcome.add(run(["make", "--no-print-directory", *targets], statuses=range(256)))
        outcome.figures = {"status": finished.status, "last_line": finished.out.strip().splitlines()[-1:]}
        outcome.require(finished.status == 0)
        return outcome

    return check


def clean_clone(folder: Path) -> Outcome:
    """`.ci/run` in a clone of this commit."""
    import shutil

    outcome, clone = Outcome(), folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    outcome.add(run(["git", "clone", "--quiet", ".", clone]))
    shared = {"NPUC_SHARED": str(SHARED)}
    finished = outcome.add(run([clone / ".ci" / "run"], statuses=range(256), environment=shared))
    outcome.figures = {"status": finished.status, "last_lines": finished.out.strip().splitlines()[-3:]}
    outcome.require(finished.status == 0)
    return outcome
