"""Firmware as an ELF file: what lies where at power-on, and names for addresses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from simulator.errors import SimulatorFault

MAX_FILE_BYTES = 1 << 28


@dataclass(frozen=True)
class ArmImage:
    """Bytes by load address, and functions as (address, bytes, name)."""

    path: Path
    segments: tuple[tuple[int, bytes], ...]
    functions: tuple[tuple[int, int, str], ...]

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


def load_image(path: Path) -> ArmImage:
    """Read an ELF file for Arm; SimulatorFault when it is none."""
    if path.stat().st_size > MAX_FILE_BYTES:
        raise SimulatorFault(f"{path}: more than {MAX_FILE_BYTES} bytes", "give the linked firmware")
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != "EM_ARM" or elf["e_type"] != "ET_EXEC":
                raise SimulatorFault(f"{path}: an ELF file, but no linked firmware for Arm", "give the linked firmware")
            loads = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
            if sum(segment["p_filesz"] for segment in loads) > MAX_FILE_BYTES:
                raise SimulatorFault(f"{path}: its segments overlap", "link the firmware again")
            rows = [(segment["p_paddr"], segment.data()) for segment in loads]
            return ArmImage(path, tuple(row for row in rows if row[1]), _functions(elf))
    except (ELFError, ValueError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise SimulatorFault(f"{path}: not an ELF file: {error}", "give the linked firmware") from error


def _functions(elf: ELFFile) -> tuple[tuple[int, int, str], ...]:
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        return ()
    rows = (row for row in table.iter_symbols() if row["st_info"]["type"] == "STT_FUNC")
    return tuple((row["st_value"] & ~1, row["st_size"], row.name) for row in rows)
