"""`npuc inspect`: what a program holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npuc.cli.check import reference_graph
from npuc.cli.console import print_json, print_table
from npuc.cli.option import Json, Program

if TYPE_CHECKING:
    from isa.container import Container

ShowGraph = Annotated[bool, typer.Option("--graph", help="Print the reference graph instead.")]

SUMMARY = ("tool", "model", "sram_peak_bytes", "sram_bound_bytes", "sram_status", "cycles", "bound_cycles",
           "lower_bound_cycles", "macs", "transdata_count")  # fmt: skip
"""What the compiler records in the metadata of a program."""


def inspect(program: Program, graph: ShowGraph = False, as_json: Json = False) -> None:
    """Show the sections, inputs and outputs, memory and instructions of a program."""
    from isa.container import read_container

    container = read_container(program.read_bytes())
    if graph:
        print(reference_graph(container), end="")
        return
    result = describe(container)
    print_json(result) if as_json else print_report(result)


def describe(container: Container) -> dict[str, Any]:
    """The document of `inspect --json`."""
    from dataclasses import asdict

    from isa.arm_calls import decode_arm_calls
    from isa.codec import decode_program
    from isa.container import section_offsets
    from isa.container_format import CONTAINER_VERSION, ISA_VERSION
    from isa.instructions import BY_OPCODE
    from npuc.cli.listing import kernel_name

    kernels = Counter(kernel_name(call) for call in decode_arm_calls(container.arm_calls))
    opcodes = Counter(decode_program(container.instructions).opcode.tolist())
    sections = {kind: getattr(container, kind.name.lower()) for kind in section_offsets(container)}
    return {
        "schema": "npuc.inspect/1",
        "target": container.target_name,
        "fingerprint": container.fingerprint,
        "isa": list(ISA_VERSION),
        "container": CONTAINER_VERSION,
        "sections": [
            {"name": kind.name.lower(), "offset": offset, "bytes": section_bytes(sections[kind])}
            for kind, offset in section_offsets(container).items()
        ],
        "io": [{**asdict(entry), "shape": list(entry.shape)} for entry in container.io],
        "instructions": {BY_OPCODE[opcode].mnemonic: count for opcode, count in sorted(opcodes.items())},
        "arm_calls": dict(sorted(kernels.items())),
        **{key: container.metadata.get(key) for key in SUMMARY},
    }


def section_bytes(content: object) -> int | None:
    """Length of a raw section; None for those that are held decoded."""
    return len(content) if isinstance(content, bytes) else None


def print_report(result: Mapping[str, Any]) -> None:
    """The document for a reader."""
    print(f"program for {result['target']} ({result['fingerprint']}), ISA {'.'.join(map(str, result['isa']))}")
    print_table(
        ["section ", "offset", "bytes"],
        [(row["name"], row["offset"], "" if row["bytes"] is None else row["bytes"]) for row in result["sections"]],
    )
    print()
    print_table(
        ["", "name ", "type ", "shape ", "address", "scale", "zero point", "host type "],
        [
            (row["direction"], row["name"], row["dtype"], row["shape"], hex(row["address"]), f"{row['scale']:.6g}",
             row["zero_point"], row["host_dtype"])
            for row in result["io"]
        ],
    )  # fmt: skip
    print()
    print_table(["instruction ", "count"], list(result["instructions"].items()))
    print()
    if result["arm_calls"]:
        print_table(["arm call ", "count"], list(result["arm_calls"].items()))
        print()
    for key in SUMMARY:
        if result[key] is not None:
            print(f"{key} = {result[key]}")
