"""Measures cells in one process: a cell as JSON a line on stdin, its record as JSON a line on stdout.

The compiler is used through its command line; the process is only kept so that its imports are paid for once.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.anchors.cell import FULL_BYTES, MEMORY, SEARCH, SLOW_FLASH, Cell, Record, anchors
from benchmarks.anchors.golden import LARGE_MACS, N_SAMPLES, Golden, compare, read_golden
from benchmarks.network import tflite_model


def main() -> None:
    """Answer every line until stdin ends; intermediate files go to the folder given."""
    folder, answers = Path(sys.argv[1]), sys.stdout
    for line in sys.stdin:
        record = measure(Cell(**json.loads(line)), folder)
        print(json.dumps(record), file=answers, flush=True)


def measure(cell: Cell, folder: Path) -> Record:
    """Compile, run on golden inputs, compare the outputs: figures, or the status and the message of a failure."""
    program = folder / "anchor.npu"
    program.unlink(missing_ok=True)
    is_checked = n_samples(cell) == N_SAMPLES
    output = ("-o", program, "--json", *(() if is_checked else ("--strip",)))
    status, out, err = npuc("compile", tflite_model(cell.network), *cell.arguments(), *output)
    if status:
        return {"status": status, "error": err.strip(), "left": program.exists()}
    record = figures(json.loads(out))
    golden = read_golden(cell.network, folder, n_samples(cell))
    limit = record["sram_peak_bytes"] if cell.optimize == MEMORY else cell.sram_bytes
    options = ["--sram", str(limit), *(["--check"] if is_checked else [])]
    return record | run(program, golden, options, folder)


def n_samples(cell: Cell) -> int:
    """Golden samples to run: all of them with the whole memory and slow flash, and of small networks always."""
    is_base = cell.policy == SEARCH and cell.sram_bytes == FULL_BYTES and cell.target in SLOW_FLASH
    return N_SAMPLES if is_base or anchors()[cell.network].macs < LARGE_MACS else 1


def run(program: Path, golden: Golden, options: list[str], folder: Path) -> Record:
    """Run the golden inputs: how many output elements differ, and what `--check` says when it is asked for."""
    outputs = folder / "anchor.npz"
    outputs.unlink(missing_ok=True)
    io = json.loads(npuc("inspect", program, "--json")[1])["io"]
    names = [entry["name"] for entry in io if entry["direction"] == "in"]
    given = [f"{name}={path}" for name, path in zip(names, golden.inputs, strict=True)]
    inputs = [text for source in given for text in ("--input", source)]
    status, out, err = npuc("run", program, *inputs, *options, "--output", outputs, "--json")
    if not out:
        return {"samples": 0, "differ": None, "check": None, "run_status": status, "run_error": err.strip()}
    found = json.loads(out)
    return {"samples": found["samples"], "differ": compare(golden, outputs), "check": found["check"]}


def figures(compiled: dict[str, Any]) -> Record:
    """The figures of a compilation that are kept."""
    sram, flash = compiled["sram"], compiled["flash"]
    return {
        "status": 0,
        "cycles": compiled["cycles"]["predicted"],
        **{key: compiled["cycles"][key] for key in ("lower_bound", "lower_bound_by")},
        "arm_cycles": compiled["cycles"]["arm"],
        "arm_nodes": len(compiled["arm_nodes"]),
        "sram_peak_bytes": sram["peak_bytes"],
        "sram_bound_bytes": sram["bound_bytes"],
        "sram_status": sram["status"],
        **{key: flash[key] for key in ("weights_bytes", "weights_raw_bytes", "stream_bytes")},
        "offchip_data_bytes": flash["offchip_bytes"] - flash["offchip_stream_bytes"],
        "offchip_stream_bytes": flash["offchip_stream_bytes"],
        "sha256": compiled["sha256"][:16],
        "cpu_s": compiled["cpu_s"],
    }


def npuc(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of the command line, in this process."""
    from npuc.cli import main as command

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            command([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return status, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    main()
