"""`npuc verify`: the static proofs of a program, and every executor against the reference, layer by layer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.console import note, print_json
from npuc.cli.debug_map import DebugMap, MapOption, read_map
from npuc.cli.executor import ExecutorName, KernelImage
from npuc.cli.failure import CANNOT
from npuc.cli.option import Json, Preprocess, Program, Sram, read_bytes
from npuc.cli.proof import finding_document, proof_text
from npuc.cli.run import InputLayout
from npuc.cli.samples import ImageLayout, random_samples, read_inputs

if TYPE_CHECKING:
    from isa.container import Container
    from npuc.graph.types import Array

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="SOURCE", help="Samples, as for `npuc run`; default: random ones."),
]
Samples = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="How many samples; default: all that are given, else 1.")
]
Executors = Annotated[
    list[ExecutorName] | None,
    typer.Option("--executor", help="What runs the program; repeatable; default: all for which there is a compiler."),
]


def verify(
    program: Program,
    inputs: Inputs = None,
    samples: Samples = None,
    executor: Executors = None,
    input_layout: InputLayout = None,
    preprocess: Preprocess = None,
    debug_map: MapOption = None,
    sram: Sram = None,
    kernels: KernelImage = None,
    as_json: Json = False,
) -> None:
    """Prove a program safe for every timing, then run it everywhere and compare each layer with the reference."""
    from isa.container import read_container
    from npuc.cli.comparison import Subject, compare_executors

    data, names, sram_bytes = program.read_bytes(), read_map(program, debug_map), read_bytes(sram)
    container = read_container(data)
    result = prove(data, names, sram_bytes)
    result["findings"] += claims(data, container) if result["ok"] else []
    result["ok"] &= not result["findings"]
    if container.reference:
        feeds = read_samples(container, inputs, samples, input_layout, preprocess)
        result |= compare_executors(Subject(data, container, names, sram_bytes, kernels), feeds, executor)
    else:
        note("the program has no reference graph: nothing was run; compile it without --strip")
    result["ok"] &= all(row["ok"] for row in result["executors"].values())
    print_json(result) if as_json else print_summary(result)
    if not result["ok"]:
        raise typer.Exit(CANNOT)


def prove(data: bytes, names: DebugMap, sram_bytes: int | None) -> dict[str, Any]:
    """The static part of the document of `verify --json`."""
    from npuc.verify import verify_program

    began = time.process_time()
    verdict = verify_program(data, names, sram_bytes=sram_bytes)
    return {
        "schema": "npuc.verify/1",
        "ok": verdict.ok,
        "races": [finding_document(finding) for finding in verdict.races],
        "findings": [finding_document(finding) for finding in verdict.findings],
        "proofs": verdict.proofs,
        "proof_cpu_s": round(time.process_time() - began, 3),
        "samples": 0,
        "executors": {},
        "skipped": {},
    }


def claims(data: bytes, container: Container) -> list[dict[str, Any]]:
    """Findings where cycles that the compiler recorded are not those of the program."""
    from simulator.program import load
    from simulator.trace import timing

    claimed, least = container.metadata.get("cycles"), container.metadata.get("lower_bound_cycles", 0)
    cycles = timing(load(data)).timeline.total_cycles
    text = f"the program takes {cycles} cycles; it claims {claimed}, and {least} as the least of all schedules"
    is_true = claimed is None or (claimed == cycles and isinstance(least, int) and least <= cycles)
    return [] if is_true else [{"kind": "cycles", "message": text, "instructions": []}]


def read_samples(
    container: Container, sources: list[str] | None, n_samples: int | None, layout: ImageLayout | None,
    preprocess: Path | None,
) -> Iterator[Mapping[str, Array]]:  # fmt: skip
    """Inputs of each inference in stored type: from files, else random."""
    from calibration import read_preprocessing
    from simulator.host import stored_samples

    entries = {entry.name: entry for entry in container.io if entry.direction == "in"}
    if not sources:
        return random_samples(entries, n_samples or 1)
    arrays = read_inputs(sources, entries, layout, read_preprocessing(preprocess) if preprocess else None)
    return islice(stored_samples(entries, arrays), n_samples)


def print_summary(result: Mapping[str, Any]) -> None:
    """The result for a reader."""
    found = [*result["races"], *result["findings"]]
    print(f"for every legal timing: {'NOT SAFE' if found else 'proven'} ({result['proof_cpu_s']:.3f} CPU s)")
    print(
        "".join(f"  {row['kind']}: {row['message']}\n" for row in found) or f"  {proof_text(result['proofs'])}\n",
        end="",
    )
    for name, row in result["executors"].items():
        print_executor(name, row, result["samples"])
    for name, reason in result["skipped"].items():
        print(f"{name:<10} not run: {reason}")


def print_executor(name: str, row: Mapping[str, Any], n_samples: int) -> None:
    """What one executor computed."""
    compared = f"{row['layers']} layers" if row["layers"] else "outputs"
    verdict = f"{compared} equal" if row["ok"] else "FAILS" if row["error"] else "DIFFERS"
    print(f"{name:<10} {verdict}, {n_samples} samples, {row['cpu_s']:.3f} CPU s")
    found = row["first_difference"]
    if found:
        place = f"{found['output']}{found['index']} of sample {found['sample']}"
        print(f"  in layer {found['layer']}, {place}: got {found['got']}, expected {found['expected']}")
    if row["error"]:
        print(f"  {row['error']}")
