"""Tables of functions of one int8 value, entry by entry as TensorFlow Lite Micro computes them in integers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from isa import arithmetic, fixed_point
from isa.fixed_point import Int64Array
from npuc.graph.types import QuantParams

LOGISTIC_QUANT = QuantParams(1 / 256, -128)
"""Quantization of the result of `logistic_table`."""

TANH_QUANT = QuantParams(1 / 128, 0)
"""Quantization of the result of `tanh_table`."""

_INPUT_BITS = 4
"""Integer bits of the argument of both functions."""


def rescale_table(source: QuantParams, result: QuantParams) -> tuple[int, ...]:
    """The same real value in another quantization: QUANTIZE from int8 to int8."""
    factor = arithmetic.quantize_multiplier(source.scale / result.scale)
    values = np.arange(-128, 128) - source.zero_point
    scaled = arithmetic.rescale(values, factor.multiplier, factor.shift) + result.zero_point
    return tuple(np.clip(scaled, -128, 127).tolist())


def logistic_table(source: QuantParams) -> tuple[int, ...]:
    """1 / (1 + exp(-x)) with `LOGISTIC_QUANT`."""
    return _fixed_point_table(source, fixed_point.logistic, 8, LOGISTIC_QUANT.zero_point)


def tanh_table(source: QuantParams) -> tuple[int, ...]:
    """tanh(x) with `TANH_QUANT`."""
    return _fixed_point_table(source, fixed_point.tanh, 7, TANH_QUANT.zero_point)


def _fixed_point_table(
    source: QuantParams, function: Callable[[Int64Array], Int64Array], output_bits: int, zero_point: int
) -> tuple[int, ...]:
    """`function` of the input with 4 integer bits; inputs whose argument would reach 2^4 saturate."""
    fraction, left_shift = math.frexp(source.scale * (1 << (31 - _INPUT_BITS)))
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    radius = math.floor(((1 << _INPUT_BITS) - 1) * 2.0 ** (31 - _INPUT_BITS) / 2.0**left_shift)
    values = np.arange(-128, 128, dtype=np.int64) - source.zero_point
    inside = np.clip(values, 1 - radius, radius - 1)
    argument = arithmetic.rescale(inside, multiplier, 31 - left_shift)
    result = fixed_point.divide_by_power(function(argument), 31 - output_bits) + zero_point
    result = np.where(values <= -radius, -128, np.where(values >= radius, 127, np.clip(result, -128, 127)))
    return tuple(result.tolist())
