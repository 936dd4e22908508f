"""What a verification says: findings with the instructions and bytes they are about, and what was proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isa.descriptors import Memory


@dataclass(frozen=True)
class Finding:
    """One violation. `kind` is `race`, `range`, `alignment`, `limit`, `descriptor`, `uninitialized`, `overlap`,
    `deadlock`, `output` or `unsupported`.

    `instructions` are indices in program order, those of Arm calls behind the last instruction; `addresses` are the
    32-bit addresses concerned, empty where there are none.
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
    """How messages call instructions: with layer and source nodes when there is a debug map.

    `kernels` are the numbers of the Arm calls' kernels; calls are numbered behind the instructions.
    """

    def __init__(
        self, mnemonics: list[str], debug_map: Mapping[str, Any] | None = None, kernels: Sequence[int] = ()
    ) -> None:
        self._mnemonics, self._kernels = mnemonics, kernels
        debug_map = debug_map or {}
        self._layers = {row["index"]: _layer(row) for row in debug_map.get("instructions", [])}
        self._layers |= {len(mnemonics) + row["index"]: _layer(row) for row in debug_map.get("calls", [])}

    def instruction(self, index: int) -> str:
        """`instruction 7 vec.add (layer add_3, from /block/Add)`, `arm call 2 of kernel 5 (layer softmax)`."""
        call = index - len(self._mnemonics)
        if call >= 0:
            return f"arm call {call} of kernel {self._kernels[call]}{self._layers.get(index, '')}"
        return f"instruction {index} {self._mnemonics[index]}{self._layers.get(index, '')}"


def _layer(row: Mapping[str, Any]) -> str:
    sources = [source for source in row["sources"] if source != row["layer"]]
    return f" (layer {row['layer']}{', from ' + ', '.join(sources) if sources else ''})"


def interval(addresses: range) -> str:
    """`sram 0x10..0x1f`; the range must lie in one memory."""
    memory, first = Memory(addresses.start >> 30), addresses.start & ((1 << 30) - 1)
    return f"{memory.name.lower()} {first:#x}..{first + len(addresses) - 1:#x}"
