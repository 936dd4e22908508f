"""Requantization of strips: `isa.arithmetic.requantize` in one pass, compiled where numba is installed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isa import arithmetic
from isa.timing.compiled import IS_COMPILED, compiled
from simulator.memory import Array

Column = npt.NDArray[np.int64]


class Requantization(NamedTuple):
    """Constants of a layer; the factors, one a channel, come with the sums."""

    zero_point: int
    low: int
    high: int
    double_round: bool


def requantize(sums: Array, multiplier: Array, shift: Array, constants: Requantization, out: Array) -> None:
    """out [..., channels] (8 bits, holds low..high) from sums [..., channels] (int32); multiplier, shift [channels]."""
    if not IS_COMPILED:
        np.copyto(out, arithmetic.requantize(sums, multiplier, shift, *constants), casting="unsafe")
        return
    shifts: Column = shift.astype(np.int64)
    half = np.int64(1) << (shifts - 1)
    extra = np.where((shifts > 31) & constants.double_round, 1 << 30, 0)
    n = len(shifts)
    offset, low, high, _ = constants
    _requantize(
        sums.reshape(-1, n), multiplier.astype(np.int64), shifts, half, extra, offset, low, high, out.reshape(-1, n)
    )


@compiled
def _requantize(
    sums: Array,
    multiplier: Column,
    shift: Column,
    half: Column,
    extra: Column,
    zero_point: int,
    low: int,
    high: int,
    out: Array,
) -> None:
    """`half` is added to every product, `extra` more to those of sums that are not negative, and less to the others."""
    for i in range(sums.shape[0]):
        for c in range(sums.shape[1]):
            value = np.int64(sums[i, c])
            scaled = value * multiplier[c] + half[c]
            scaled += extra[c] if value >= 0 else -extra[c]
            out[i, c] = min(max((scaled >> shift[c]) + zero_point, low), high)
