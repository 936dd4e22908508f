"""Access to the decoded columns of a group of instructions, and the traffic that the group's operands cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isa.descriptors import Memory
from isa.target import Board, Rate
from isa.timing.geometry import WORD_BYTES, Axis, Ints, Operand, ceil_div, element_bytes


@dataclass(frozen=True)
class Rows:
    """The instructions `index` of decoded columns; a missing column reads as zeros."""

    columns: Mapping[str, Ints]
    index: Ints

    def __call__(self, name: str) -> Ints:
        """The field `name` of these instructions."""
        if name not in self.columns:
            return np.zeros(len(self.index), np.int64)
        return np.asarray(self.columns[name], np.int64)[self.index]

    def operand(self, prefix: str, total_channels: str) -> Operand:
        """The tensor operand `prefix` at the instruction's batch entry."""

        def strides(name: str) -> Ints:
            return self(f"{prefix}_{name}")

        return Operand(
            strides("base") + self("n") * strides("batch"),
            strides("pixel"),
            strides("row"),
            strides("block"),
            strides("last_pixel"),
            strides("last_row"),
            element_bytes(strides("type")),
            np.maximum(strides("c0"), 1),
            self(total_channels),
        )

    def axes(self) -> tuple[Axis, Axis, Axis]:
        """Rows, pixels and channels of the output region, cut into the descriptor's blocks."""
        return (
            Axis.cut(self("y"), self("height"), self("block_h")),
            Axis.cut(self("x"), self("width"), self("block_w")),
            Axis.cut(self("c"), self("channels"), 8 * self("block_c")),
        )


class Traffic:
    """Reads and writes of a group of instructions by the memory that they go to."""

    def __init__(self, n: int) -> None:
        self.read_words = np.zeros(n, np.int64)
        self.write_words = np.zeros(n, np.int64)
        self.flash_bytes = np.zeros(n, np.int64)
        self.dram_bytes = np.zeros(n, np.int64)

    def read(self, address: Ints, words: Ints, length_bytes: Ints | None = None) -> None:
        """Count a read of `words`; off-chip memories count `length_bytes`, or whole words where it is not known."""
        memory = address >> 30
        count_bytes = words * WORD_BYTES if length_bytes is None else length_bytes
        self.read_words += np.where(memory == Memory.SRAM, words, 0)
        self.flash_bytes += np.where(memory == Memory.FLASH, count_bytes, 0)
        self.dram_bytes += np.where(memory == Memory.DRAM, count_bytes, 0)

    def write(self, address: Ints, words: Ints, length_bytes: Ints | None = None) -> None:
        """Count a write of `words`; flash cannot be written and counts nothing."""
        memory = address >> 30
        self.write_words += np.where(memory == Memory.SRAM, words, 0)
        count_bytes = words * WORD_BYTES if length_bytes is None else length_bytes
        self.dram_bytes += np.where(memory == Memory.DRAM, count_bytes, 0)


def latency_cycles(address: Ints, board: Board) -> Ints:
    """Cycles from a request to its first data, by the memory of `address`."""
    cycles = (board.flash_latency_cycles, board.sram_latency_cycles, board.dram_latency_cycles, 0)
    return np.asarray(np.array(cycles, np.int64)[address >> 30])


def rate_cycles(elements: Ints, rate: Rate) -> Ints:
    """Cycles of `elements` at `rate`, rounded up."""
    return ceil_div(elements * rate.denominator, rate.numerator)
