"""`npuc calibrate`: sample data in, a quantization table out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.console import print_json, progress
from npuc.cli.option import Json, Model, ObserverName, Preprocess, Shapes, read_observer, read_shapes
from npuc.errors import UsageError

if TYPE_CHECKING:
    from calibration import QuantTable
    from npuc.graph.graph import Graph

Source = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="SOURCE",
        help="Samples: F.npy, F.npz[:key] or a folder of images, with @start:stop:step for some of them.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="TABLE.json", help="Default: the model's name with .json.")
]


def calibrate(
    model: Model,
    data: Source,
    preprocess: Preprocess = None,
    observer: ObserverName = None,
    output: Output = None,
    shape: Shapes = None,
    as_json: Json = False,
) -> None:
    """Observe the tensors of a float model on sample data; write the table of their ranges."""
    from calibration import write_table
    from npuc.compiler import import_model

    require_float(model)
    graph = import_model(model, read_shapes(shape))
    table = make_table(model, graph, data, preprocess, observer)
    path = output or Path(model.with_suffix(".json").name)
    write_table(table, path)
    result = {
        "schema": "npuc.calibrate/1",
        "table": str(path),
        "observer": table.observer,
        "samples": table.n_samples,
        "tensors": len(table.tensors),
        "notes": list(table.notes),
    }
    print_json(result) if as_json else print_summary(result)


def print_summary(result: Mapping[str, Any]) -> None:
    """The result for a reader."""
    print(f"{result['table']}: {result['tensors']} tensors, {result['samples']} samples, {result['observer']}")
    for line in result["notes"]:
        print(f"  {line}")


def require_float(model: Path) -> None:
    """UsageError for a model that carries its own quantization."""
    if model.suffix == ".tflite":
        raise UsageError(f"{model} is quantized already", hint="compile it without --calibration and without --data")


def make_table(model: Path, graph: Graph, source: str, preprocess: Path | None, observer: str | None) -> QuantTable:
    """The quantization table of a float graph over the samples of `source`."""
    from calibration import load_inputs, read_preprocessing
    from npuc.ptq.calibrate import DEFAULT_OBSERVER, calibrate_model

    chosen = DEFAULT_OBSERVER if observer is None else read_observer(observer)
    shapes = {name: graph.type_of(name).shape for name in graph.inputs}
    samples = load_inputs(source, shapes, read_preprocessing(preprocess) if preprocess else None)
    with progress("calibrating") as advance:
        n_samples = max(map(len, samples.values()), default=0)
        return calibrate_model(graph, samples, chosen, lambda done: advance(done, n_samples), model_sha256(model))


def model_sha256(model: Path) -> str:
    """Hexadecimal digest of the model file."""
    return hashlib.sha256(model.read_bytes()).hexdigest()
