"""Normative bilinear interpolation, as in TensorFlow Lite's integer kernel; 10 fractional bits.

Output position i reads input position p = i * scale + offset, in 1/1024 pixels. Its lower neighbour is
max(p / 1024, 0), its upper one min((p + 1023) / 1024, n_input - 1), both quotients truncated towards zero; the weight
of the upper one is p - 1024 * lower, that of the lower one 1024 less that. The result is the sum of the four products
of value, row weight and pixel weight, divided by 2^20 with halves away from zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isa.fixed_point import Int64Array

ONE = 1 << 10


class Positions(NamedTuple):
    """Of each output position along an axis: both neighbours, and the weight of the upper one."""

    lower: Int64Array
    upper: Int64Array
    weight: Int64Array


def positions(outputs: range, scale: int, offset: int, n_input: int) -> Positions:
    """Neighbours and weights of these output positions on an axis of `n_input` elements."""
    place = np.arange(outputs.start, outputs.stop, dtype=np.int64) * scale + offset
    lower = np.maximum(place // ONE, 0)
    upper = np.minimum(np.maximum(place + ONE - 1, 0) // ONE, n_input - 1)
    return Positions(lower, upper, place - lower * ONE)


def interpolate(value: Int64Array, rows: Positions, pixels: Positions) -> Int64Array:
    """value [..., rows, pixels] at the positions, [..., len(rows), len(pixels)]."""
    down, across = rows.weight[:, None], pixels.weight
    lines = value[..., rows.lower, :] * (ONE - down) + value[..., rows.upper, :] * down
    total = lines[..., pixels.lower] * (ONE - across) + lines[..., pixels.upper] * across
    magnitude = (np.abs(total) + (1 << 19)) >> 20
    return np.asarray(np.sign(total) * magnitude, np.int64)
