"""`npuc disasm` and `npuc asm`: programs as text and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from npuc.cli.debug_map import MapOption, layer_names, read_map
from npuc.cli.option import Program
from npuc.errors import UsageError

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
    notes = layer_names(read_map(program, debug_map))
    print(disassemble(container.instructions, container.descriptors, base, notes), end="")


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
