"""Firmware or kernels as an ELF file: what lies where at power-on, and names for addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from simulator.errors import SimulatorFault

MAX_FILE_BYTES = 1 << 28


@dataclass(frozen=True)
class ArmImage:
    """Bytes by load address, functions as (address, bytes, name), and data as name to (address, bytes)."""

    path: Path
    segments: tuple[tuple[int, bytes], ...]
    functions: tuple[tuple[int, int, str], ...]
    objects: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def function(self, address: int) -> str:
        """Name of the function that an address is in; empty when it is in none."""
        names = (name for start, n_bytes, name in self.functions if start <= address < start + n_bytes)
        return next(names, "")

    def with_data(self, address: int, data: bytes) -> ArmImage:
        """The image with more in its memory; SimulatorFault when there is something already."""
        for start, content in self.segments:
            if start < address + len(data) and address < start + len(content):
                end = start + len(content)
                raise SimulatorFault(f"{len(data)} bytes at {address:#010x} overlap {start:#010x}..{end - 1:#010x} of "
                                     "the firmware", "choose an address behind it")  # fmt: skip
        return replace(self, segments=(*self.segments, (address, data)))


def load_image(path: Path, machine: str = "EM_ARM") -> ArmImage:
    """Read a linked ELF file for a machine, as the ELF header names it; SimulatorFault when it is none."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise SimulatorFault(f"{path}: more than {MAX_FILE_BYTES} bytes", "give the linked firmware")
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != machine or elf["e_type"] != "ET_EXEC":
                raise SimulatorFault(f"{path}: an ELF file, but nothing linked for {machine[3:].lower()}",
                                     "give the linked firmware or kernels")  # fmt: skip
            loads = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
            if sum(segment["p_filesz"] for segment in loads) > MAX_FILE_BYTES:
                raise SimulatorFault(f"{path}: its segments overlap", "link the firmware again")
            rows = [(segment["p_paddr"], segment.data()) for segment in loads]
            functions = tuple((row["st_value"] & ~1, row["st_size"], row.name) for row in _symbols(elf, "STT_FUNC"))
            objects = {row.name: (row["st_value"], row["st_size"]) for row in _symbols(elf, "STT_OBJECT")}
            return ArmImage(path, tuple(row for row in rows if row[1]), functions, objects)
    except (ELFError, ValueError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise SimulatorFault(f"{path}: not an ELF file: {error}", "give the linked firmware") from error


def _symbols(elf: Any, kind: str) -> list[Any]:
    table = elf.get_section_by_name(".symtab")
    rows = table.iter_symbols() if isinstance(table, SymbolTableSection) else ()
    return [row for row in rows if row["st_info"]["type"] == kind]
