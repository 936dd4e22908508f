"""`npuc demo`: the digit reader of examples/digits, from model to verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuc.cli.check import reference_graph
from npuc.cli.executor import open_machine
from npuc.cli.failure import CANNOT
from npuc.cli.option import TargetName, read_target
from npuc.cli.profile import measure, print_report
from npuc.cli.run import Results, run_all
from npuc.errors import ImportFailure

if TYPE_CHECKING:
    from npuc.compiler import Compiled
    from npuc.graph.graph import Graph

FOLDER = Path(__file__).parents[2] / "examples" / "digits"
CHART_COLUMNS = 64


def demo(target: TargetName = "edge-256") -> None:
    """Compile the digit reader, run the held-out images on the simulator, and print what came out."""
    import typer

    from npuc.cli.calibrate import make_table
    from npuc.compiler import Options, compile_model, import_model

    chosen, model = read_target(target), FOLDER / "model.onnx"
    if not model.exists():
        raise ImportFailure(f"{model} is missing", hint="run the demo from a checkout of npuc")
    graph = import_model(model, {})
    table = make_table(model, graph, f"{FOLDER / 'digits.npz'}:calib", None, None)
    compiled = compile_model(graph, table, Options(chosen))
    results = judge(graph, compiled)
    print()
    print_report(measure(compiled.program, compiled.debug_map))
    print()
    print_memory(compiled.debug_map["buffers"], compiled.report["sram"], chosen.board.sram_bytes)
    if results.difference is not None:
        raise typer.Exit(CANNOT)


def judge(graph: Graph, compiled: Compiled) -> Results:
    """Run the held-out images, print accuracy and the verdict."""
    from calibration import load_inputs, load_labels, top1
    from npuc.graph.float_evaluate import FloatEvaluator
    from simulator.host import host_outputs
    from simulator.program import load

    source, output = str(FOLDER / "digits.npz"), graph.outputs[0]
    labels = load_labels(source)
    images = load_inputs(f"{source}:x", {name: graph.type_of(name).shape for name in graph.inputs})
    machine = open_machine(load(compiled.program))
    results = run_all(machine, images, reference_graph(machine.program.container))
    probabilities = host_outputs(machine.outputs, results.stored)[output]
    print(f"handwritten digits, {len(labels)} held-out images, on {compiled.report['target']}")
    print(f"  float accuracy  {percent(top1(FloatEvaluator(graph, [output])(images)[output], labels))}")
    print(f"  int8 accuracy   {percent(top1(probabilities, labels))}")
    verdict = "bit-exact on every image" if results.difference is None else f"DIFFERS at {results.difference}"
    print(f"  simulator against the integer reference: {verdict}")
    return results


def percent(fraction: float) -> str:
    """A fraction as percent."""
    return f"{100 * fraction:.2f} %"


def print_memory(buffers: Sequence[Mapping[str, Any]], sram: Mapping[str, Any], capacity: int) -> None:
    """The SRAM map: a line for each buffer by address, drawn over the bytes in use."""
    peak = max(sram["peak_bytes"], 1)
    print(f"SRAM: {peak:,} of {capacity:,} bytes, {sram['status']} (bound {sram['bound_bytes']:,})")
    for buffer in sorted(buffers, key=lambda row: (row["address"], row["name"])):
        print(f"{buffer['address']:#08x} {buffer['bytes']:>8,} {bar(buffer, peak)} {buffer['kind']} {buffer['name']}")


def bar(buffer: Mapping[str, Any], peak: int) -> str:
    """Where a buffer lies in the bytes in use; never empty."""
    first = buffer["address"] * CHART_COLUMNS // peak
    last = max(first + 1, -(-(buffer["address"] + buffer["bytes"]) * CHART_COLUMNS // peak))
    return f"|{' ' * first}{'#' * (last - first)}{' ' * (CHART_COLUMNS - last)}|"
