"""`npuc accuracy`: how close a program is to the float model that it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.calibrate import require_float
from npuc.cli.check import reference_graph
from npuc.cli.console import print_json, print_table
from npuc.cli.executor import open_machine
from npuc.cli.logits import integer_values, softmax_input
from npuc.cli.option import Json, Model, Preprocess, Shapes, read_shapes
from npuc.cli.run import run_all
from npuc.cli.samples import read_inputs

if TYPE_CHECKING:
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array
    from simulator.machine import Machine

ProgramOption = Annotated[Path, typer.Option("--program", metavar="PROGRAM", help="The program: .npu.")]
Source = Annotated[str, typer.Option("--data", metavar="SOURCE", help="Test samples, as for `npuc run --input`.")]
Labels = Annotated[
    str | None, typer.Option(metavar="SOURCE", help="Class labels: F.npz[:key], array `y` without a key.")
]


def accuracy(
    model: Model,
    program: ProgramOption,
    data: Source,
    labels: Labels = None,
    preprocess: Preprocess = None,
    shape: Shapes = None,
    as_json: Json = False,
) -> None:
    """Compare a program, bit-exactly simulated, with the float model: SQNR, cosine, agreement and top-1."""
    from calibration import load_labels, read_preprocessing
    from npuc.compiler import import_model

    require_float(model)
    graph = import_model(model, read_shapes(shape))
    settings = read_preprocessing(preprocess) if preprocess else None
    result = compare(graph, program.read_bytes(), data, settings, load_labels(labels) if labels else None)
    print_json(result) if as_json else print_summary(result)


def compare(graph: Graph, data: bytes, source: str, settings: Any, labels: Array | None) -> dict[str, Any]:
    """The document of `accuracy --json`.

    SQNR and cosine are those of the input of a final Softmax, where the program computes its input, else of the
    output; the others those of the first output.
    """
    from calibration import agreement, cosine, sqnr_db, top1
    from npuc.graph.float_evaluate import FloatEvaluator
    from simulator.host import host_outputs
    from simulator.program import load

    machine = open_machine(load(data))
    arrays = read_inputs([source], machine.inputs, None, settings)
    output, value = graph.outputs[0], softmax_input(graph)
    floats = FloatEvaluator(graph, [output, *([value] if value else [])])(arrays)
    results = run_all(machine, arrays, None)
    measured = host_outputs(machine.outputs, results.stored)[output]
    logits = program_logits(machine, arrays) if value else None
    at, ref, test = (output, floats[output], measured) if value is None or logits is None else (
        value, floats[value].reshape(logits.shape), logits,
    )  # fmt: skip
    return {
        "schema": "npuc.accuracy/1",
        "samples": results.n_samples,
        "metric": f"SQNR at {at}",
        "sqnr_db": finite(sqnr_db(ref, test)),
        "cosine": cosine(ref, test),
        "agreement": agreement(floats[output], measured),
        "top1_float": None if labels is None else top1(floats[output], labels),
        "top1_int8": None if labels is None else top1(measured, labels),
        "layers": layers(graph, machine, arrays),
    }


def layers(graph: Graph, machine: Machine, arrays: Mapping[str, Array]) -> list[dict[str, Any]]:
    """The layers of the program's reference graph; none when it was stripped."""
    from npuc.cli.layer_accuracy import layer_rows

    container = machine.program.container
    return layer_rows(graph, reference_graph(container), arrays) if container.reference else []


def program_logits(machine: Machine, arrays: Mapping[str, Array]) -> Array | None:
    """Input of the program's final Softmax [samples, elements], by its reference graph; None when it has neither."""
    from simulator.host import stored_samples

    container = machine.program.container
    graph = reference_graph(container) if container.reference else None
    value = softmax_input(graph) if graph else None
    if graph is None or value is None or graph.type_of(value).quant is None:
        return None
    return integer_values(graph, value, stored_samples(machine.inputs, arrays))


def finite(value: float) -> float | None:
    """JSON has no infinity: None when there is no error at all."""
    return value if abs(value) != float("inf") else None


def print_summary(result: Mapping[str, Any]) -> None:
    """The result for a reader."""
    sqnr = "no error" if result["sqnr_db"] is None else f"{result['sqnr_db']:.2f} dB"
    print(f"{result['samples']} samples; SQNR {sqnr}, cosine {result['cosine']:.6f} ({result['metric']})")
    print(f"same class as float: {100 * result['agreement']:.2f} %")
    if result["top1_float"] is not None:
        print(f"top-1: float {100 * result['top1_float']:.2f} %, int8 {100 * result['top1_int8']:.2f} %")
    if result["layers"]:
        print_layers(result["layers"])


def print_layers(rows: Sequence[Mapping[str, Any]]) -> None:
    """A line for each layer."""
    print_table(
        ["layer ", "SQNR dB", "alone dB", "saturated %"],
        [
            (row["name"], decibels(row["sqnr_db"]), decibels(row["alone_sqnr_db"]), f"{100 * row['saturation']:.3f}")
            for row in rows
        ],
    )


def decibels(value: float | None) -> str:
    """A ratio for the table; a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"
