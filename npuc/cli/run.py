"""`npuc run`: a program on the simulator, or its graph by C kernels, on any number of samples, checked on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.check import Difference, Reference, first_difference, reference_graph
from npuc.cli.console import print_json, progress
from npuc.cli.debug_map import layer_descriptions, read_map
from npuc.cli.executor import Executor, ExecutorName, KernelExecutor, KernelImage, kernel_backend, open_machine
from npuc.cli.failure import CANNOT
from npuc.cli.option import Json, Preprocess, Program, Sram, read_bytes
from npuc.cli.samples import ImageLayout, archive_bytes, read_inputs
from npuc.errors import UsageError

if TYPE_CHECKING:
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array
    from simulator.program import Program as Loaded


class Place(StrEnum):
    """Where a program runs; an Arm core is a Cortex-M33."""

    SIMULATOR = "simulator"
    HOST = "host"
    ARM = "arm"


KERNELS_OF = {Place.HOST: ExecutorName.HOST, Place.ARM: ExecutorName.M33}

Inputs = Annotated[
    list[str],
    typer.Option(
        "--input",
        "-i",
        metavar="SOURCE",
        help="Samples: F.npy, F.npz[:key] or a folder of images, with @start:stop:step for some of them; "
        "NAME=SOURCE for one input of several.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="F.npz", help="Write the outputs by name.")]
Check = Annotated[bool, typer.Option("--check", help="Compare every output byte with the integer reference graph.")]
InputLayout = Annotated[ImageLayout | None, typer.Option(help="Axis order of the images; default: the model's.")]
Independent = Annotated[bool, typer.Option("--independent", help="Reset the machine before every sample.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Make races, overwritten bytes and accumulators that leave 32 bits errors.")
]
On = Annotated[
    Place,
    typer.Option(help="The NPU's simulator, or the program's graph by C kernels on this machine or an emulated core."),
]


@dataclass
class Results:
    """Stored outputs of all samples, and the first difference from the reference when it was asked for."""

    checked: bool
    stored: list[dict[str, Array]] = field(default_factory=list)
    difference: Difference | None = None

    @property
    def n_samples(self) -> int:
        """How many were run."""
        return len(self.stored)

    @property
    def verdict(self) -> str | None:
        """What `run --json` calls check."""
        if not self.checked:
            return None
        return "bit-exact" if self.difference is None else "differs"


def run(
    program: Program,
    inputs: Inputs,
    output: Output = None,
    check: Check = False,
    on: On = Place.SIMULATOR,
    input_layout: InputLayout = None,
    preprocess: Preprocess = None,
    independent: Independent = False,
    sram: Sram = None,
    strict: Strict = False,
    kernels: KernelImage = None,
    as_json: Json = False,
) -> None:
    """Run a program on the simulator; with --check, compare every sample with the integer reference."""
    from calibration import read_preprocessing
    from isa.container import save
    from simulator.host import host_outputs
    from simulator.program import load
    from simulator.trace import timeline

    loaded = load(program.read_bytes())
    machine = open_executor(program, loaded, on, read_bytes(sram), kernels, strict=strict)
    graph = reference_graph(loaded.container) if check else None
    settings = read_preprocessing(preprocess) if preprocess else None
    arrays = read_inputs(inputs, machine.inputs, input_layout, settings)
    results = run_all(machine, arrays, graph, independent=independent, image=kernels)
    if output is not None:
        save(output, archive_bytes(host_outputs(machine.outputs, results.stored)))
    document = {
        "schema": "npuc.run/1",
        "samples": results.n_samples,
        "on": on.value,
        "check": results.verdict,
        "first_difference": results.difference.to_json() if results.difference else None,
        "cycles": timeline(loaded).total_cycles if on is Place.SIMULATOR else None,
    }
    print_json(document) if as_json else print_summary(document, results.difference)
    if results.difference is not None:
        raise typer.Exit(CANNOT)


def open_executor(
    program: Path, loaded: Loaded, on: Place, sram_bytes: int | None, image: Path | None, *, strict: bool
) -> Executor:
    """What runs the program; UsageError for options that only the simulator has."""
    if on is Place.SIMULATOR:
        layers = layer_descriptions(read_map(program, None), len(loaded.code))
        return open_machine(loaded, sram_bytes, image, strict=strict, layers=layers)
    if strict or sram_bytes is not None or image is not None:
        raise UsageError(f"--sram, --strict and --kernels do not apply to --on {on.value}", hint="leave them out")
    return KernelExecutor(loaded.container, kernel_backend(KERNELS_OF[on]))


def run_all(
    machine: Executor,
    arrays: Mapping[str, Array],
    graph: Graph | None,
    *,
    independent: bool = False,
    image: Path | None = None,
) -> Results:
    """Run every sample; compare with `graph` when it is given, up to the first difference.

    `image` has the kernels that compute the float nodes of the graph.
    """
    from simulator.host import stored_samples

    reference = Reference(graph, image=image) if graph is not None else None
    samples = list(stored_samples(machine.inputs, arrays))
    results = Results(reference is not None)
    with progress("running") as advance:
        for index, sample in enumerate(samples):
            if independent:
                machine.reset()
                if reference is not None:
                    reference.reset()
            results.stored.append(machine.run(sample))
            if reference is not None and results.difference is None:
                results.difference = first_difference(reference, index, sample, results.stored[-1])
            advance(index + 1, len(samples))
    return results


def print_summary(result: Mapping[str, Any], difference: Difference | None) -> None:
    """The result for a reader."""
    verdict = {None: "not checked", "bit-exact": "bit-exact with the reference", "differs": "DIFFERS"}[result["check"]]
    cycles = f", {result['cycles']:,} cycles each" if result["cycles"] is not None else ""
    print(f"{result['samples']} samples on the {result['on']}{cycles}: {verdict}")
    if difference is not None:
        print(f"  first difference: {difference}")
