"""Energy in text: all of it, and what takes it."""

from __future__ import annotations

from collections.abc import Mapping

PARTS = {"mac_pj": "array", "sram_pj": "SRAM", "flash_pj": "flash", "dram_pj": "DRAM", "vector_pj": "vector unit",
         "static_pj": "static"}  # fmt: skip
"""Keys of the parts, and their names."""


def energy_text(energy: Mapping[str, int]) -> str:
    """Microjoules from picojoules, the largest part first; parts of nothing are left out."""
    total = energy["predicted_pj"]
    parts = sorted((key for key in PARTS if energy[key]), key=lambda key: -energy[key])
    shares = ", ".join(f"{PARTS[key]} {100 * energy[key] / total:.0f} %" for key in parts)
    return f"{total / 1e6:,.3f} uJ" + (f" ({shares})" if shares else "")
