"""Lower bounds of one instruction, and the closed forms of another simulator to compare the array's formulas with."""

from __future__ import annotations

import numpy as np

from isa.target import Target
from isa.timing.geometry import WORD_BYTES, Ints, ceil_div
from isa.timing.work import Work


def bound_cycles(work: Work, target: Target) -> Ints:
    """Roofline of each instruction [n]: the cycles of its busiest resource; fixed parts, sharing and `pace` (what
    blocks that differ cost) are left out."""
    board = target.board
    if board.sram_shared_port:
        ports = [_at(WORD_BYTES * (work.read_words + work.write_words), board.sram_read_bytes_per_cycle)]
    else:
        ports = [
            _at(WORD_BYTES * work.read_words, board.sram_read_bytes_per_cycle),
            _at(WORD_BYTES * work.write_words, board.sram_write_bytes_per_cycle),
        ]
    flash = _at(work.flash_bytes, board.flash_bytes_per_cycle)
    dram = _at(work.dram_bytes, board.dram_bytes_per_cycle)
    bound: Ints = np.stack([work.compute, work.output, *ports, flash, dram]).max(axis=0)
    return bound


def scale_sim_cycles(
    rows: int, columns: int, outputs: int, reduction: int, channels: int, *, is_output_stationary: bool
) -> int:
    """Compute-only cycles of a `rows` x `columns` systolic array as SCALE-Sim v3 counts them.

    `outputs` pixels M, `reduction` K = kernel height x width x input channels, `channels` output channels N:
    output stationary ceil(M/R) ceil(N/C) (K + R + C - 2), weight stationary ceil(K/R) ceil(N/C) (M + 2R + C - 2).
    """
    folds = -(-channels // columns)
    if is_output_stationary:
        return -(-outputs // rows) * folds * (reduction + rows + columns - 2)
    return -(-reduction // rows) * folds * (outputs + 2 * rows + columns - 2)


def _at(amount_bytes: Ints, bytes_per_cycle: int) -> Ints:
    if bytes_per_cycle == 0:
        return np.zeros_like(amount_bytes)
    return ceil_div(amount_bytes, bytes_per_cycle)
