"""`npuc disasm` and `npuc asm`: programs as text and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npuc.cli.debug_map import DebugMap, MapOption, layer_names, read_map
from npuc.cli.option import Program
from npuc.errors import UsageError

if TYPE_CHECKING:
    from isa.arm_calls import ArmCall

MAX_RANGES = 4
"""Ranges of a call that a line shows, read and written ones each."""

Listing = Annotated[Path, typer.Argument(metavar="LISTING", help="Text as `npuc disasm` prints it.")]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="OUT.npu", help="The program to write.")]
Like = Annotated[
    Path, typer.Option(metavar="PROGRAM", help="Program that gives everything but instructions and descriptors.")
]


def disasm(program: Program, debug_map: MapOption = None) -> None:
    """Print the instructions and descriptors of a program; `npuc asm` reads them back."""
    from isa.assembler import disassemble
    from isa.container import descriptors_offset, read_container

    container = read_container(program.read_bytes())
    base = descriptors_offset(len(container.constants))
    names = read_map(program, debug_map)
    print(disassemble(container.instructions, container.descriptors, base, layer_names(names)), end="")
    print("".join(f"# {line}\n" for line in call_lines(container.arm_calls, names)), end="")


def call_lines(section: bytes, names: DebugMap) -> Iterator[str]:
    """The Arm calls: kernel, conditions, bytes of sram. They are comments of a listing, which holds instructions."""
    from isa.arm_calls import decode_arm_calls

    layers = {row["index"]: row["layer"] for row in names.get("calls", [])}
    for index, call in enumerate(decode_arm_calls(section)):
        waits = "".join(f" {queue.name.lower().replace('_', '-')}>={count}" for queue, count in call.conditions)
        line = f"arm call {index}: {kernel_name(call)} version={call.version} cycles={call.cycles}"
        for verb, is_written in (("reads", False), ("writes", True)):
            places = [item for item in call.ranges if item.is_written == is_written]
            line += "".join(f" {verb}={item.address:#x}+{item.n_bytes}" for item in places[:MAX_RANGES])
            line += f" and {len(places) - MAX_RANGES} more" if len(places) > MAX_RANGES else ""
        layer = " ".join(layers.get(index, "").split())
        yield line + (f"; wait{waits}" if waits else "") + (f"; {layer}" if layer else "")


def kernel_name(call: ArmCall) -> str:
    """Name of a kernel; its number when this release does not know it, and `wait` when there is none."""
    from isa.arm_calls import NO_KERNEL
    from npuc.arm.kernel_spec import KERNELS

    names = {spec.kernel_id: spec.name for spec in KERNELS} | {NO_KERNEL: "wait"}
    return names.get(call.kernel, f"kernel {call.kernel}")


def asm(listing: Listing, like: Like, output: Output) -> None:
    """Write a program with the instructions and descriptors of a listing, and the rest of another program."""
    from isa.assembler import assemble_listing
    from isa.container import descriptors_offset, read_container, save, write_container

    container = read_container(like.read_bytes())
    assembly = assemble_listing(listing.read_text(encoding="utf-8", errors="replace"))
    base = descriptors_offset(len(container.constants))
    if assembly.descriptors and assembly.descriptors_base != base:
        raise UsageError(
            f"descriptors of the listing begin at {assembly.descriptors_base:#x}, those of {like} at {base:#x}",
            hint="assemble with --like the program that the listing was made from",
        )
    changed = replace(container, instructions=assembly.instructions, descriptors=assembly.descriptors)
    save(output, write_container(changed))
    print(f"{output}: {len(changed.instructions)} bytes of instructions, {len(changed.descriptors)} of descriptors")
