"""A criterion asks for the records of cells and gives figures and a verdict; the arithmetic that all of them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.anchors.cell import LATENCY, SEARCH, Anchor, Cell, Record

Measure = Callable[[Cell], Record]
Figures = dict[str, Any]

REFERENCE = "u55-like"
"""The target of everything that is measured on one target only: the one with the rates of Vela's."""


@dataclass(frozen=True)
class Verdict:
    """Whether a criterion is met, and the figures that say so."""

    ok: bool
    figures: Figures


@dataclass(frozen=True)
class Criterion:
    """One requirement; `judge` measures what it needs."""

    name: str
    requirement: str
    judge: Callable[[Measure], Verdict]


def mean(ratios: Iterable[float]) -> float | None:
    """Geometric mean, rounded; None of nothing."""
    logs = [math.log(ratio) for ratio in ratios]
    return round(math.exp(sum(logs) / len(logs)), 4) if logs else None


def is_at_most(value: float | None, limit: float) -> bool:
    """Whether there is a value, and it keeps the limit."""
    return value is not None and value <= limit


def split(networks: Iterable[Anchor], figure: Callable[[Anchor], float | None]) -> tuple[dict[str, float], list[str]]:
    """A figure of each network that has one, rounded, and the names of the others."""
    found = {anchor.model: figure(anchor) for anchor in networks}
    there = {name: round(value, 4) for name, value in found.items() if value is not None}
    return there, [name for name, value in found.items() if value is None]


def ratio(measure: Measure, anchor: Anchor, target: str, sram_bytes: int, policy: str = SEARCH) -> float | None:
    """Cycles over the bound; None when there is no program."""
    record = measure(Cell(anchor.model, target, sram_bytes, LATENCY, policy))
    return None if record["status"] else float(record["cycles"] / anchor.bound(target))


def averaged(networks: Iterable[Anchor], figure: Callable[[Anchor], float | None], limit: float) -> Verdict:
    """Met when every network has a figure and their geometric mean keeps the limit."""
    ratios, missing = split(networks, figure)
    found = mean(ratios.values())
    figures = {"geometric_mean": found, "limit": limit, "no_program": missing, "ratios": ratios}
    return Verdict(is_at_most(found, limit) and not missing, figures)
