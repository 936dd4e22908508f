"""What a program's work costs in picojoules, from amounts that the timing counts anyway.

The Arm core is not part of it: its calls are the same in every schedule.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from isa.target import Energy, Target
from isa.timing.geometry import WORD_BYTES
from isa.timing.work import Work

FEMTO_PER_PICO = 1000


@dataclass(frozen=True)
class Usage:
    """What a program does, in all of its instructions."""

    macs: int
    sram_bytes: int
    """Of the port: a word of which one byte is needed counts whole."""
    flash_bytes: int
    """Instructions and descriptors included."""
    dram_bytes: int
    vector_elements: int
    cycles: int


@dataclass(frozen=True)
class Spent:
    """Picojoules by what takes them, each rounded up."""

    mac_pj: int
    sram_pj: int
    flash_pj: int
    dram_pj: int
    vector_pj: int
    static_pj: int

    @property
    def predicted_pj(self) -> int:
        """All of them."""
        return self.mac_pj + self.sram_pj + self.flash_pj + self.dram_pj + self.vector_pj + self.static_pj


def usage_of(work: Work, cycles: int) -> Usage:
    """What instructions do that take `cycles` together."""
    return Usage(
        int(work.macs.sum()),
        WORD_BYTES * int(work.read_words.sum() + work.write_words.sum()),
        int(work.flash_bytes.sum() + work.stream_bytes.sum() + work.descriptor_bytes.sum()),
        int(work.dram_bytes.sum()),
        int(work.vector_elements.sum()),
        cycles,
    )


def spent(usage: Usage, energy: Energy) -> Spent:
    """What it takes."""
    return Spent(
        _picojoules(usage.macs * energy.mac_fj),
        _picojoules(usage.sram_bytes * energy.sram_byte_fj),
        _picojoules(usage.flash_bytes * energy.flash_byte_fj),
        _picojoules(usage.dram_bytes * energy.dram_byte_fj),
        _picojoules(usage.vector_elements * energy.vector_element_fj),
        _picojoules(usage.cycles * energy.static_cycle_fj),
    )


def energy_report(work: Work, cycles: int, target: Target) -> dict[str, int] | None:
    """Picojoules in all and by what takes them; None when the target does not say what things take."""
    if target.energy is None:
        return None
    found = spent(usage_of(work, cycles), target.energy)
    return {"predicted_pj": found.predicted_pj, **asdict(found)}


def _picojoules(femtojoules: int) -> int:
    return -(-femtojoules // FEMTO_PER_PICO)
