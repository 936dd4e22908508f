"""Cost of the DMA instructions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa.instructions import BY_MNEMONIC
from isa.target import Target
from isa.timing.geometry import Ints, Operand, operand_words, plain_span
from isa.timing.record import Rows, Traffic, latency_cycles
from isa.timing.tandem import copy_delay

_FOUR_D = [BY_MNEMONIC[name].opcode for name in ("dma.load4", "dma.store4", "dma.fill")]
_FILL = BY_MNEMONIC["dma.fill"].opcode


@dataclass(frozen=True)
class _Copy:
    """Bytes of a run and runs in three outer dimensions; a contiguous copy is one run."""

    run_bytes: Ints
    runs: tuple[Ints, Ints, Ints]

    def words(self, address: Ints, strides: tuple[Ints, Ints, Ints]) -> Ints:
        """Distinct 8-byte words of every run of one side, summed: runs, planes and groups are pixels, rows and channel
        blocks of an operand whose channel block is a run."""
        one, zero = np.ones_like(address), np.zeros_like(address)
        operand = Operand(address, strides[0], strides[1], strides[2], zero, zero, one, self.run_bytes, zero)
        pixels, rows = (plain_span(zero, count) for count in self.runs[:2])
        return operand_words(operand, rows, pixels, zero, self.runs[2] * self.run_bytes)

    @property
    def total_bytes(self) -> Ints:
        return self.run_bytes * self.runs[0] * self.runs[1] * self.runs[2]


def dma_work(f: Rows, target: Target) -> dict[str, Ints]:
    """Work columns of a group of DMA instructions: each side moves one word of a run a cycle, and a word is written
    when the word with its last byte has been read."""
    is_4d, is_fill = np.isin(f("opcode"), _FOUR_D), f("opcode") == _FILL
    one, zero = np.ones_like(f.index), np.zeros_like(f.index)
    sizes = [np.where(is_4d, f(f"size_{i}"), one) for i in (1, 2, 3)]
    copy = _Copy(np.where(is_4d, f("size_0"), f("length")), (sizes[0], sizes[1], sizes[2]))
    words, steps = {}, {}
    for side in ("source", "destination"):
        steps[side] = [np.where(is_4d, f(f"{side}_{i}"), zero) for i in (1, 2, 3)]
        words[side] = copy.words(f(side), (steps[side][0], steps[side][1], steps[side][2]))
    read, written = np.where(is_fill, 0, words["source"]), words["destination"]
    dimensions = list(zip(copy.runs, steps["source"], steps["destination"], strict=True))
    delay = copy_delay((f("source"), f("destination")), copy.run_bytes, dimensions)
    traffic = Traffic(len(f.index))
    traffic.read(f("source"), read, np.where(is_fill, 0, copy.total_bytes))
    traffic.write(f("destination"), written, copy.total_bytes)
    return vars(traffic) | {
        "compute": written + np.where(is_fill, 0, delay),
        "lead_cycles": np.full_like(read, target.costs.dma_setup_cycles),
        "drain_cycles": np.where(is_fill, 0, latency_cycles(f("source"), target.board)),
    }
