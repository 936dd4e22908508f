"""`npuc pareto`: what SRAM buys, as the programs that no other found beats in both SRAM and cycles."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from npuc.cli.compile import Table, quantization
from npuc.cli.console import print_json
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
from npuc.errors import UsageError

Plot = Annotated[Path | None, typer.Option(metavar="F.png", help="Draw the front (needs the extra: report).")]


def pareto(
    model: Model,
    target: TargetName,
    calibration: Table = None,
    data: Data = None,
    preprocess: Preprocess = None,
    observer: ObserverName = None,
    shape: Shapes = None,
    sram: Sram = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Cycles by SRAM, up to --sram or the target's; `npuc compile --sram BYTES` makes the program of each row."""
    from npuc.compiler import Options, import_model, sram_cycles_front

    began = time.process_time()
    graph = import_model(model, read_shapes(shape))
    table = quantization(model, graph, calibration, data, preprocess, observer)
    front = sram_cycles_front(graph, table, Options(read_target(target), read_bytes(sram)))
    if plot is not None:
        draw(plot, model.stem, target, front)
    points = [{"sram_bytes": sram_bytes, "cycles": cycles} for sram_bytes, cycles in front]
    result: dict[str, Any] = {
        "schema": "npuc.pareto/1", "target": target, "points": points,
        "cpu_s": round(time.process_time() - began, 3),
    }  # fmt: skip
    print_json(result) if as_json else print_front(front)


def print_front(front: Sequence[tuple[int, int]]) -> None:
    """A row for each program."""
    fastest = front[-1][1]
    print(f"{'SRAM bytes':>12} {'cycles':>14} {'x fastest':>10}")
    for sram_bytes, cycles in front:
        print(f"{sram_bytes:>12,} {cycles:>14,} {cycles / fastest:>10.2f}")


def draw(path: Path, model: str, target: str, front: Sequence[tuple[int, int]]) -> None:
    """The front as a staircase: between two programs the smaller one serves."""
    try:
        figure = import_module("matplotlib.figure").Figure(figsize=(7, 4.5), layout="constrained")
    except ImportError:
        raise UsageError("--plot needs matplotlib", hint="install npuc with the extra: report") from None
    axes = figure.add_subplot()
    axes.step([sram_bytes / 1024 for sram_bytes, _ in front], [cycles for _, cycles in front], where="post", marker="o")
    axes.set(xlabel="SRAM, KiB", ylabel="cycles", title=f"{model} on {target}", xscale="log", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(path, dpi=120)
