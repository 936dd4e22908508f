"""CPU seconds and peak memory of compiling and simulating real networks: `python -m benchmarks.bench [NAME ...]`.

Every figure comes from a process of its own and is the least of several runs; `docs/bench.json` holds the results with
the commit that was measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.network import BY_NAME, ROOT, Network
from benchmarks.process import npuc, run

RESULTS = ROOT / "docs" / "bench.json"
FOLDER = ROOT / "build" / "bench"
DEFAULT = ("squeezenet11_224", "mlperf_ic_resnet8", "mlperf_vww_mbv1_025", "fsdd_dscnn", "ultraface_slim-320")
REPEATS = 3

SIMULATE = """
import json, sys, time
from pathlib import Path
import numpy as np
from simulator.machine import Machine
from simulator.program import load
from simulator.trace import timeline

start = time.process_time()
machine = Machine(load(Path(sys.argv[1]).read_bytes()))
rng = np.random.default_rng(0)
inputs = {name: rng.integers(-128, 128, e.shape).astype(e.dtype) for name, e in machine.inputs.items()}
loaded = time.process_time()
machine.run(inputs)
ran = time.process_time()
cycles = timeline(machine.program).total_cycles
timed = time.process_time()
print(json.dumps({"load_cpu_s": loaded - start, "data_cpu_s": ran - loaded, "timing_cpu_s": timed - ran,
                  "simulate_cpu_s": timed - loaded, "cycles": cycles}))
"""


def measure_compile(network: Network, target: str, folder: Path) -> dict[str, Any]:
    """Seconds and memory of compiling with a search and from the lock; schedule quality; program in `folder`."""
    table, program = folder / f"{network.name}.json", folder / f"{network.name}.bench.npu"
    npuc("calibrate", network.model, *network.compile_arguments(folder), "-o", table)
    shape = ["--shape", network.shape] if network.shape else []
    arguments: list[str | Path] = [
        "compile",
        network.model,
        "--calibration",
        table,
        *shape,
        "-t",
        target,
        "-o",
        program,
        "--json",
    ]
    searches = [npuc(*arguments, "--update-lock") for _ in range(REPEATS)]
    locked = [npuc(*arguments) for _ in range(REPEATS)]
    cycles = searches[0].document["cycles"]
    return {
        "compile_cpu_s": min(item.cpu_s for item in searches),
        "lock_cpu_s": min(item.cpu_s for item in locked),
        "compile_peak_bytes": max(item.peak_bytes for item in (*searches, *locked)),
        "cycles": cycles["predicted"],
        "bound_cycles": cycles["bound"],
        "ratio": round(cycles["predicted"] / cycles["bound"], 4),
        "sram_peak_bytes": searches[0].document["sram"]["peak_bytes"],
        "same_bytes": len({item.document["sha256"] for item in (*searches, *locked)}) == 1,
    }


def measure_simulation(network: Network, target: str, folder: Path) -> dict[str, Any]:
    """Seconds and memory of one simulated inference of the program that `measure_compile` left in `folder`."""
    program = folder / f"{network.name}.bench.npu"
    runs = [run([sys.executable, "-c", SIMULATE, program]) for _ in range(REPEATS)]
    best = min((item.document for item in runs), key=lambda document: document["simulate_cpu_s"])
    seconds = {key: round(best[key], 4) for key in best if key.endswith("_cpu_s")}
    return {**seconds, "simulate_peak_bytes": max(item.peak_bytes for item in runs)}


def main() -> None:
    names = sys.argv[1:] or DEFAULT
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        sys.exit(f"unknown networks {', '.join(unknown)}; known are {', '.join(BY_NAME)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name in names:
        network = BY_NAME[name]
        rows[name] = {**measure_compile(network, "edge-256", FOLDER), **measure_simulation(network, "edge-256", FOLDER)}
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in rows[name].items()), flush=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    document = {"schema": "npuc.bench/1", "commit": commit.strip(), "target": "edge-256", "networks": rows}
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print("schedules beside Arm Vela's, on 27 networks: make anchors")


if __name__ == "__main__":
    main()
