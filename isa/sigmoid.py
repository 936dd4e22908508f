"""Normative int16 sigmoid and tanh by interpolation in one table, as in TensorFlow Lite; values are int64 arrays.

tanh(x) = 2 sigmoid(2x) - 1, and both functions are symmetric, so that one table of non-negative arguments serves both.
"""

from __future__ import annotations

import numpy as np

from isa.fixed_point import Int64Array

# fmt: off
SIGMOID_TABLE = np.array((
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688,
    43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
    51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110,
    61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
    63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900,
    64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
    65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449,
    65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
    65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
    65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
    65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535,
), np.int64)
# fmt: on
"""About 65536 / (1 + exp(-i / 24)); the entries are those of TensorFlow Lite, which do not follow one rounding rule."""


SIGMOID_INTEGER_BITS = 3
"""Integer bits of the argument of `sigmoid16`."""


def sigmoid16(value: Int64Array) -> Int64Array:
    """sigmoid(value / 2^12) * 2^15 for int16 values."""
    argument = value * 3
    result = _interpolate(np.abs(argument), 9, 0x7FFF << 10)
    return np.where(argument >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1) >> 10


def tanh16(value: Int64Array, integer_bits: int) -> Int64Array:
    """tanh(value / 2^(15 - integer_bits)) * 2^15 for int16 values.

    The argument is 3 * value * 2^(integer_bits - 3), rounded half up where the power is negative.
    """
    shift = integer_bits - 3
    argument = value * 3 << shift if shift >= 0 else (value * 3 + (1 << (-shift - 1))) >> -shift
    result = _interpolate(np.abs(argument), 8, 0xFFFF << 8)
    return np.where(argument >= 0, result - (1 << 23) + (1 << 7), -result + (1 << 23) + (1 << 7) - 1) >> 8


def _interpolate(argument: Int64Array, fraction_bits: int, largest: int) -> Int64Array:
    """The table at argument / 2^fraction_bits, times 2^fraction_bits; `largest` from entry 255 on."""
    index = np.minimum(argument >> fraction_bits, 254)
    lower, upper = SIGMOID_TABLE[index], SIGMOID_TABLE[index + 1]
    inside = (lower << fraction_bits) + (argument & ((1 << fraction_bits) - 1)) * (upper - lower)
    return np.where(argument >> fraction_bits >= 255, largest, inside)
