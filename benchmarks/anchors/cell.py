"""What is measured: one network compiled in one way; and the table of networks with the figures of Arm Vela."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.network import SHARED

MAIN, FLOAT_IO, RECURRENT, DUPLICATE = GROUPS = ("main", "float-io", "recurrent", "duplicate")
AVERAGED = (MAIN, FLOAT_IO)
"""The groups that geometric means of cycles are taken of."""

SLOW_FLASH, FAST_FLASH = ("u55-like", "edge-256"), ("u55-like-mram", "edge-256-mram")
TARGETS = (*SLOW_FLASH, *FAST_FLASH)

LATENCY, MEMORY = "latency", "memory"
POLICIES = SEARCH, GREEDY, LAYERWISE = ("search", "greedy", "layerwise")

FULL_BYTES = 2 << 20
HALF_BYTES = 512 << 10


@dataclass(frozen=True)
class Anchor:
    """A network and its row of bench/schedule-anchors.tsv; `flash1`, `flash4` are flash rates in bytes a cycle."""

    model: str
    group: str
    macs: int
    weight_bytes: int
    entropy_bytes: int
    untiled_live_bytes: int
    bound_flash1: int
    bound_flash4: int
    vela_fast_sram_bytes: int
    vela_small_sram_bytes: int
    vela_fast_cycles_flash1: int
    vela_small_cycles_flash1: int
    vela_fast_cycles_flash4: int
    vela_small_cycles_flash4: int
    vela_fast_offchip_bytes: int
    vela_small_offchip_bytes: int
    vela_stored_weight_bytes: int

    def bound(self, target: str) -> int:
        """Cycles of the fixed bound: max(MACs / 256, entropy of the weights / flash rate)."""
        return self.bound_flash4 if target in FAST_FLASH else self.bound_flash1

    def vela_cycles(self, target: str) -> int:
        """Vela's own estimate at the flash rate of the target, optimized for speed."""
        return self.vela_fast_cycles_flash4 if target in FAST_FLASH else self.vela_fast_cycles_flash1


@cache
def anchors() -> dict[str, Anchor]:
    """All networks by name, in the order of the table."""
    with (SHARED / "bench" / "schedule-anchors.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    numbers = [name for name in Anchor.__dataclass_fields__ if name not in ("model", "group")]
    found = (Anchor(row["model"], row["group"], *(int(row[name]) for name in numbers)) for row in rows)
    return {anchor.model: anchor for anchor in found}


def of_groups(*groups: str) -> list[Anchor]:
    """The networks of some groups."""
    return [anchor for anchor in anchors().values() if anchor.group in groups]


@dataclass(frozen=True)
class Cell:
    """A network, a target and the options of `npuc compile`."""

    network: str
    target: str
    sram_bytes: int
    optimize: str = LATENCY
    policy: str = SEARCH

    @property
    def key(self) -> str:
        """Name of the cell among those of its network."""
        return f"{self.target} {self.sram_bytes} {self.optimize} {self.policy}"

    def arguments(self) -> list[str]:
        """Options of `npuc compile`."""
        return [
            "--target", self.target, "--sram", str(self.sram_bytes), "--optimize", self.optimize,
            "--policy", self.policy, "--no-lock",
        ]  # fmt: skip


DONE, CANNOT, CRASHED, NOT_MEASURED = 0, 1, 70, -1
"""Status of a record: that of the compilation, of one that says why there is no program, of a bug; no record at all."""

Record = dict[str, Any]
"""What a cell gave (benchmarks/anchors/worker.py)."""
