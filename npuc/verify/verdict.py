"""What a verification says: findings with the instructions and bytes they are about, and what was proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from isa.descriptors import Memory


@dataclass(frozen=True)
class Finding:
    """One violation. `kind` is `race`, `range`, `alignment`, `limit`, `descriptor`, `uninitialized`, `overlap`,
    `deadlock`, `output` or `unsupported`.

    `instructions` are indices in program order; `addresses` are the 32-bit addresses concerned, empty where there are
    none.
    """

    kind: str
    message: str
    instructions: tuple[int, ...] = ()
    addresses: range = range(0)


@dataclass(frozen=True)
class Verdict:
    """`races` are the findings of kind `race`, `findings` all others; `proofs` counts what each proof covered."""

    ok: bool
    races: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    proofs: dict[str, int]


class Names:
    """How messages call instructions and bytes: with layer and source nodes when there is a debug map."""

    def __init__(self, mnemonics: list[str], debug_map: Mapping[str, Any] | None = None) -> None:
        self._mnemonics = mnemonics
        rows = debug_map["instructions"] if debug_map else []
        self._layers = {row["index"]: _layer(row) for row in rows}

    def instruction(self, index: int) -> str:
        """`instruction 7 vec.add (layer add_3, from /block/Add)`."""
        return f"instruction {index} {self._mnemonics[index]}{self._layers.get(index, '')}"


def _layer(row: Mapping[str, Any]) -> str:
    sources = [source for source in row["sources"] if source != row["layer"]]
    return f" (layer {row['layer']}{', from ' + ', '.join(sources) if sources else ''})"


def interval(addresses: range) -> str:
    """`sram 0x10..0x1f`; the range must lie in one memory."""
    memory, first = Memory(addresses.start >> 30), addresses.start & ((1 << 30) - 1)
    return f"{memory.name.lower()} {first:#x}..{first + len(addresses) - 1:#x}"
