"""`npuc profile`: where the cycles go, layer by layer."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.console import print_json, print_table
from npuc.cli.debug_map import DebugMap, MapOption, layer_order, read_map, row_entries
from npuc.cli.energy import energy_text
from npuc.cli.option import Json, Program

if TYPE_CHECKING:
    from simulator.report import Origin

Csv = Annotated[bool, typer.Option("--csv", help="Print the layers as CSV.")]

COLUMNS = ("name", "unit", "cycles", "arm_only_cycles", "macs", "utilization", "bytes", "bound_by", "stalls", "sources")


def profile(program: Program, debug_map: MapOption = None, as_json: Json = False, as_csv: Csv = False) -> None:
    """Print cycles, multiplies, bytes and stalls of every layer, named after the nodes of the model."""
    result = measure(program.read_bytes(), read_map(program, debug_map))
    if as_json:
        print_json(result)
    elif as_csv:
        print_csv(result)
    else:
        print_report(result)


def measure(data: bytes, names: DebugMap) -> dict[str, Any]:
    """The document of `profile --json`."""
    from dataclasses import asdict

    from npuc.cli.arm_only import arm_only_cycles
    from simulator import report
    from simulator.program import load
    from simulator.trace import timing

    loaded = load(data)
    found = report.profile(timing(loaded), origins(names, len(loaded.code)))
    metadata, order = loaded.container.metadata, layer_order(names)
    layers = sorted(found.layers, key=lambda layer: order.get(layer.name, len(order)))
    bound, sources = metadata.get("bound_cycles"), {layer.name: layer.sources for layer in layers}
    arm_only = arm_only_cycles(loaded.container, loaded.target, sources)
    return {
        "schema": "npuc.profile/1",
        "target": loaded.target.name,
        "cycles": found.cycles,
        "arm_cycles": found.arm_cycles,
        "bound_cycles": bound,
        "ratio": found.cycles / bound if isinstance(bound, int) and bound > 0 else None,
        "macs": found.macs,
        "utilization": found.utilization,
        "sram_peak_bytes": metadata.get("sram_peak_bytes"),
        "offchip_bytes": found.offchip_bytes,
        "energy": found.energy,
        "arm_only_cycles": sum(arm_only.values()) or None,
        "layers": [
            {**asdict(layer), "sources": list(layer.sources), "arm_only_cycles": arm_only.get(layer.name)}
            for layer in layers
        ],
    }


def origins(names: DebugMap, n_instructions: int) -> dict[int, Origin]:
    """Layer and source nodes of each row."""
    from simulator.report import Origin

    entries = row_entries(names, n_instructions)
    return {index: Origin(row["layer"], tuple(row["sources"])) for index, row in entries.items()}


def print_csv(result: Mapping[str, Any]) -> None:
    """One line for each layer; lists are joined by spaces."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(COLUMNS)
    for layer in result["layers"]:
        joined = {"stalls": stall_text(layer["stalls"]), "sources": " ".join(layer["sources"])}
        writer.writerow([{**layer, **joined}[column] for column in COLUMNS])


def print_report(result: Mapping[str, Any]) -> None:
    """Table of layers, totals and the classes of stalls."""
    total = result["cycles"] or 1
    print_table(
        ["layer ", "unit ", "cycles", "%", "Arm only", "MACs", "util %", "off chip", "bound by ", "stalls ", "nodes "],
        [
            (
                layer["name"], layer["unit"], f"{layer['cycles']:,}", f"{100 * layer['cycles'] / total:.1f}",
                f"{layer['arm_only_cycles'] or 0:,}",
                f"{layer['macs']:,}", f"{100 * layer['utilization']:.1f}", f"{layer['bytes']:,}", layer["bound_by"],
                stall_text(layer["stalls"], 2), " ".join(layer["sources"]),
            )
            for layer in result["layers"]
        ],
    )  # fmt: skip
    print()
    ratio = f", {result['ratio']:.2f} x the bound of {result['bound_cycles']:,}" if result["ratio"] else ""
    arm = f", kernels on the Arm core in {result['arm_cycles']:,} of them" if result["arm_cycles"] else ""
    print(f"{result['cycles']:,} cycles on {result['target']}{ratio}{arm}")
    if result["arm_only_cycles"]:
        print(f"{result['arm_only_cycles']:,} cycles if all of it ran on the Arm core")
    print(f"{result['macs']:,} MACs, {100 * result['utilization']:.1f} % of the array")
    print(f"{result['offchip_bytes']:,} bytes off chip, SRAM peak {result['sram_peak_bytes'] or 0:,} bytes")
    if result["energy"] is not None:
        print(energy_text(result["energy"]))
    totals: dict[str, int] = {}
    for layer in result["layers"]:
        for kind, cycles in layer["stalls"].items():
            totals[kind] = totals.get(kind, 0) + cycles
    print(f"stalls of the main units in cycles: {stall_text(totals) or 'none'}")


def stall_text(stalls: Mapping[str, int], most: int | None = None) -> str:
    """`reason:cycles` by falling cycles, the first `most` of them."""
    ordered = sorted(stalls.items(), key=lambda item: (-item[1], item[0]))
    return " ".join(f"{kind}:{cycles}" for kind, cycles in ordered[:most])
