"""How far `isa.timing` is from the stepped model: `python -m benchmarks.timing_accuracy [--programs N]`.

Compiles networks of the shared folder (`../shared` or `$NPUC_SHARED`) for each target, float ones after a quick
calibration (its table lies in build/timing), runs random programs on both models, prints the table of
docs/timing-accuracy.md and writes it there, and the figures to docs/timing-accuracy.json.
"""

from __future__ import annotations

import argparse
import json
from functools import cache
from typing import Any

import numpy as np

from benchmarks.network import BY_NAME, NETWORKS, ROOT, TFLITE, tflite_model
from benchmarks.process import npuc
from calibration import QuantTable, read_table
from isa.target import Target
from isa.target_file import load_target
from npuc.compiler import Options, compile_model, import_model
from tests.stepped.compare import Comparison, agreement, compare
from tests.stepped.fuzz import MAC_KINDS, STREAM_KINDS, WEIGHTS, random_program

FOLDER = ROOT / "build" / "timing"
RESULT = ROOT / "docs" / "timing-accuracy.json"
PAGE = ROOT / "docs" / "timing-accuracy.md"
MARKS = ("<!-- table: python -m benchmarks.timing_accuracy -->\n", "<!-- end of table -->\n")

TARGETS = ("edge-256", "u55-like", "soc-1k")
FLOAT = tuple(network.name for network in NETWORKS)
KINDS = {"all instructions": tuple(WEIGHTS), "DMA and vector": STREAM_KINDS, "MAC array": MAC_KINDS}
SRAM_BYTES = 2 << 20
SAMPLE = 4
"""Random programs of each target that the test times again."""

Row = dict[str, Any]


def network_row(name: str, target: Target) -> Row:
    """Both models on a compiled network."""
    comparison = compare(compiled(name, target), target)
    cycles = {"scoreboard": comparison.scoreboard.total_cycles, "stepped": comparison.stepped.cycles}
    return {"network": name, **cycles, "error": comparison.error, "same_class": agreement([comparison])}


def compiled(name: str, target: Target) -> bytes:
    """The program of a network of the shared folder."""
    options = Options(target, sram_bytes=SRAM_BYTES)
    if name in TFLITE:
        return compile_model(import_model(tflite_model(name), {}), None, options).program
    network = BY_NAME[name]
    shapes = {}
    if network.shape:
        axis, _, sizes = network.shape.partition("=")
        shapes = {axis: tuple(map(int, sizes.split(",")))}
    return compile_model(import_model(network.model, shapes), calibrated(name), options).program


@cache
def calibrated(name: str) -> QuantTable:
    """A quick table of a float network: ranges of values, no search."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    network, path = BY_NAME[name], FOLDER / f"{name}.json"
    npuc("calibrate", network.model, *network.compile_arguments(FOLDER), "--observer", "minmax", "-o", path)
    return read_table(path)


def program_row(label: str, runs: list[Comparison]) -> Row:
    """Both models on random programs: the distribution of the error's size."""
    errors = np.abs([run.error for run in runs])
    shares = {"median": np.median(errors), "p90": np.quantile(errors, 0.9), "max": errors.max()}
    within = {"within_2_percent": np.mean(errors <= 0.02), "same_class": agreement(runs)}
    return {"kinds": label, "programs": len(runs), **{key: float(v) for key, v in (shares | within).items()}}


def sample(target: Target) -> list[list[int]]:
    """Cycles (scoreboard, stepped) of the first random programs."""
    runs = [compare(random_program(seed, target), target) for seed in range(SAMPLE)]
    return [[run.scoreboard.total_cycles, run.stepped.cycles] for run in runs]


def measure(n_programs: int) -> Row:
    """All figures, by target."""
    result: Row = {"networks": {}, "programs": {}, "sample": {}}
    for name in TARGETS:
        target = load_target(name)
        result["networks"][name] = [network_row(network, target) for network in (*TFLITE, *FLOAT)]
        result["programs"][name] = [
            program_row(label, [compare(random_program(seed, target, kinds), target) for seed in range(n_programs)])
            for label, kinds in KINDS.items()
        ]
        result["sample"][name] = sample(target)
    return result


def table(result: Row) -> str:
    """The tables of the page."""
    lines = [
        "| network | target | stepped cycles | scoreboard | error | same stall class |",
        "|---|---|---|---|---|---|",
    ]
    for target, rows in result["networks"].items():
        for row in rows:
            cycles = f"{row['stepped']:,} | {row['scoreboard']:,}"
            shares = f"{row['error']:+.2%} | {row['same_class']:.1%}"
            lines.append(f"| {row['network']} | {target} | {cycles} | {shares} |")
    head = "| random programs | target | number | median | 90 % | worst | within 2 % | same stall class |"
    lines += ["", head, "|---|---|---|---|---|---|---|---|"]
    for target, rows in result["programs"].items():
        for row in rows:
            errors = " | ".join(f"{row[key]:.2%}" for key in ("median", "p90", "max"))
            shares = f"{row['within_2_percent']:.0%} | {row['same_class']:.1%}"
            lines.append(f"| {row['kinds']} | {target} | {row['programs']} | {errors} | {shares} |")
    return "\n".join(lines) + "\n"


def with_table(page: str, text: str) -> str:
    """The page with the text between its marks."""
    before, rest = page.split(MARKS[0])
    return before + MARKS[0] + "\n" + text + "\n" + MARKS[1] + rest.split(MARKS[1])[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=60, help="random programs of each kind and target")
    result = measure(parser.parse_args().programs)
    print(table(result))
    write(result)


def write(result: Row) -> None:
    """The figures, and the page that shows them."""
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), table(result)))


if __name__ == "__main__":
    main()
