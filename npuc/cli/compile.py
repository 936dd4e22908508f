"""`npuc compile`: a model in; a program, its debug map and the lock of the search out."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.calibrate import make_table, model_sha256, require_float
from npuc.cli.console import note, print_json, print_table
from npuc.cli.dump import PassDump
from npuc.cli.energy import energy_text
from npuc.cli.option import (
    Data,
    Json,
    Model,
    ObserverName,
    Preprocess,
    Shapes,
    Sram,
    TargetName,
    read_bytes,
    read_shapes,
    read_target,
)
from npuc.cli.proof import require_proof
from npuc.errors import UsageError

if TYPE_CHECKING:
    from calibration import QuantTable
    from npuc.compiler import Compiled
    from npuc.graph.graph import Graph
    from npuc.lock import Lock


class Goal(StrEnum):
    """What the search makes small."""

    LATENCY = "latency"
    MEMORY = "memory"
    ENERGY = "energy"


class PolicyName(StrEnum):
    """What a schedule may do."""

    SEARCH = "search"
    GREEDY = "greedy"
    LAYERWISE = "layerwise"


class Fallback(StrEnum):
    """What becomes of nodes that the NPU cannot run."""

    ARM = "arm"
    ERROR = "error"


Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="OUT.npu", help="Default: the model's name with .npu.")
]
Table = Annotated[Path | None, typer.Option("--calibration", metavar="TABLE.json", help="Table of `npuc calibrate`.")]
Optimize = Annotated[Goal, typer.Option(help="What the search makes small.")]
Cycles = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="The least SRAM with which a program takes at most N cycles.")
]
PolicyOf = Annotated[
    PolicyName, typer.Option(help="greedy and layerwise are what the search is compared with; see docs/schedule.md.")
]
FallbackTo = Annotated[
    Fallback, typer.Option(help="Nodes that the NPU cannot run: calls of the Arm core, or an error that lists them.")
]
Schedule = Annotated[Path | None, typer.Option(metavar="S.txt", help="Use this schedule, no search.")]
EmitSchedule = Annotated[Path | None, typer.Option(metavar="S.txt", help="Write the schedule, to read or to edit.")]
LockPath = Annotated[
    Path | None, typer.Option("--lock", metavar="FILE", help="Lock file; default: OUT.npuc.lock beside the program.")
]
NoLock = Annotated[bool, typer.Option("--no-lock", help="Neither read nor write a lock file.")]
UpdateLock = Annotated[bool, typer.Option("--update-lock", help="Search again and write the lock file anew.")]
Strip = Annotated[bool, typer.Option("--strip", help="Leave the reference graph out: smaller, but no --check.")]
DumpAfter = Annotated[str | None, typer.Option(metavar="PASS", help="Write the graph after this pass, or after `all`.")]
DumpDir = Annotated[Path, typer.Option(metavar="DIR", help="Where --dump-after writes.")]
ExportOnnx = Annotated[Path | None, typer.Option(metavar="F.onnx", help="Write the graph before quantization as ONNX.")]


@dataclass(frozen=True)
class LockFile:
    """The lock file of a compilation, if any; `lock` is what it held and what the compilation must honor."""

    path: Path | None
    lock: Lock | None


def compile_program(
    model: Model,
    target: TargetName,
    output: Output = None,
    calibration: Table = None,
    data: Data = None,
    preprocess: Preprocess = None,
    observer: ObserverName = None,
    shape: Shapes = None,
    sram: Sram = None,
    optimize: Optimize = Goal.LATENCY,
    cycles: Cycles = None,
    policy: PolicyOf = PolicyName.SEARCH,
    fallback: FallbackTo = Fallback.ARM,
    schedule: Schedule = None,
    emit_schedule: EmitSchedule = None,
    lock: LockPath = None,
    no_lock: NoLock = False,
    update_lock: UpdateLock = False,
    strip: Strip = False,
    dump_after: DumpAfter = None,
    dump_dir: DumpDir = Path(),
    export_onnx: ExportOnnx = None,
    as_json: Json = False,
) -> None:
    """Compile a model to a program; writes OUT.npu, OUT.npu.map and OUT.npuc.lock."""
    from npuc.compiler import Options, compile_model, import_model

    began = time.process_time()
    path = output or Path(model.with_suffix(".npu").name)
    chosen = read_target(target)
    options = Options(
        chosen, read_bytes(sram), optimize.value, cycles=cycles, policy=policy.value, fallback=fallback.value,
        strip=strip,
    )
    locked = find_lock(path, lock, no_lock=no_lock, update=update_lock or schedule is not None)
    dump = PassDump(dump_after, dump_dir)
    graph = import_model(model, read_shapes(shape), dump)
    if export_onnx is not None:
        write_onnx(graph, export_onnx)
    table = quantization(model, graph, calibration, data, preprocess, observer)
    text = None if schedule is None else schedule.read_text(encoding="utf-8", errors="replace")
    compiled = compile_model(graph, table, replace(options, schedule=text, lock=locked.lock, on_pass=dump))
    dump.finish()
    proven = require_proof(compiled, options.sram_bytes, is_edited=schedule is not None or locked.lock is not None)
    write_results(compiled, path, locked, emit_schedule)
    result = {
        "schema": "npuc.compile/1",
        "program": str(path),
        "sha256": hashlib.sha256(compiled.program).hexdigest(),
        **compiled.report,
        **proven,
        "cpu_s": round(time.process_time() - began, 3),
    }
    print_json(result) if as_json else print_summary(result)


def find_lock(program: Path, given: Path | None, *, no_lock: bool, update: bool) -> LockFile:
    """Where the lock file is, and what it holds unless it is to be written anew."""
    from npuc.lock import Lock

    if no_lock:
        if given is not None:
            raise UsageError("--lock and --no-lock contradict each other", hint="give one of them")
        return LockFile(None, None)
    path = given or program.with_suffix(".npuc.lock")
    if update or not path.exists():
        return LockFile(path, None)
    note(f"using {path}")
    return LockFile(path, Lock.from_text(path.read_text(encoding="utf-8", errors="replace"), str(path)))


def quantization(
    model: Path, graph: Graph, calibration: Path | None, data: str | None, preprocess: Path | None, observer: str | None
) -> QuantTable | None:
    """The quantization table of a float model, from a file or from samples; None for a model that is quantized."""
    from calibration import read_table

    if calibration is not None and data is not None:
        raise UsageError("--calibration and --data both say how to quantize", hint="give one of them")
    if model.suffix == ".tflite":
        if calibration is not None or data is not None:
            require_float(model)
        return None
    if data is not None:
        return make_table(model, graph, data, preprocess, observer)
    if calibration is None:
        raise UsageError(
            f"{model} is a float model and needs sample data to become int8",
            hint="give --data SOURCE, or --calibration with a table of: npuc calibrate",
        )
    table = read_table(calibration)
    if table.model_sha256 != model_sha256(model):
        raise UsageError(
            f"{calibration} was made for another model than {model}", hint="write it again with npuc calibrate"
        )
    return table


def write_onnx(graph: Graph, path: Path) -> None:
    """The graph as an ONNX file."""
    from isa.container import save
    from npuc.graph.onnx_export import export_onnx

    save(path, export_onnx(graph).SerializeToString(deterministic=True))


def write_results(compiled: Compiled, path: Path, locked: LockFile, emit_schedule: Path | None) -> None:
    """Program, debug map, lock and schedule; the program last, so that it is never newer than its map."""
    from isa.container import save

    if emit_schedule is not None:
        save(emit_schedule, compiled.schedule.encode())
    if locked.path is not None and locked.lock is None:
        save(locked.path, compiled.lock.to_text().encode())
    text = json.dumps(compiled.debug_map, sort_keys=True, separators=(",", ":"), allow_nan=False)
    save(path.with_name(f"{path.name}.map"), text.encode())
    save(path, compiled.program)


def print_summary(result: Mapping[str, Any]) -> None:
    """The report for a reader."""
    sram, cycles, flash = result["sram"], result["cycles"], result["flash"]
    proof = sram["status"] if not sram["gap_bytes"] else f"{sram['status']}, {sram['gap_bytes']} above the bound"
    ratio = f", {cycles['predicted'] / cycles['bound']:.2f} x bound" if cycles["bound"] else ""
    print(f"{result['program']} for {result['target']}, sha256 {result['sha256'][:16]}")
    least, by = cycles["lower_bound"], cycles["lower_bound_by"]
    print(f"  cycles  {cycles['predicted']:,}{ratio}; no schedule takes less than {least:,} ({by})")
    print(f"  SRAM    {sram['peak_bytes']:,} bytes ({proof})")
    print(f"  flash   {flash['program_bytes']:,} bytes, of which weights {flash['weights_bytes']:,}")
    if result["energy"] is not None:
        print(f"  energy  {energy_text(result['energy'])}")
    print(f"  layout  {result['transdata_count']} conversions")
    if result["arm_nodes"]:
        share = 100 * cycles["arm"] / max(cycles["predicted"], 1)
        print(f"  Arm     {len(result['arm_nodes'])} nodes, {cycles['arm']:,} cycles ({share:.1f} %)")
        print_table(
            ["node ", "operator ", "why not the NPU ", "cycles"],
            [
                (" ".join(row["sources"]) or row["node"], row["op"], row["reason"], f"{row['cycles']:,}")
                for row in result["arm_nodes"]
            ],
        )
