"""How tensors of a TFLite file are stored in the graph: axis orders, and unsigned values less 128."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from npuc.graph.types import Array, QuantParams
from npuc.importer.tflite_model import TfliteTensor

TO_NCHW = (0, 3, 1, 2)
TO_NHWC = (0, 2, 3, 1)

TO_INT8 = tuple(range(-128, 128))
"""Table from uint8 to int8, less 128."""

TO_UINT8 = tuple(range(256))
"""Table from int8 to uint8, plus 128."""


def logical_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """[n,h,w,c] -> (n, c, h, w); any other rank -> (rows, c, 1, 1), the last axis being c."""
    if len(shape) == 4:
        return tuple(shape[axis] for axis in TO_NCHW)
    return (math.prod(shape[:-1]), shape[-1] if shape else 1, 1, 1)


def signed(array: Array) -> Array:
    """The contents of a uint8 tensor as int8, less 128; any other array as it is."""
    return (array ^ 128).view(np.int8) if array.dtype == np.uint8 else array


def quant_of(tensor: TfliteTensor) -> QuantParams | None:
    """Quantization of the whole tensor as it is computed with; None when it has none or one per channel."""
    quant = stored_quant_of(tensor)
    return replace(quant, zero_point=quant.zero_point - 128) if quant and tensor.dtype == "UINT8" else quant


def stored_quant_of(tensor: TfliteTensor) -> QuantParams | None:
    """Quantization of the whole tensor as the file has it."""
    if len(tensor.scales) != 1 or tensor.scales[0] == 0:
        return None
    return QuantParams(tensor.scales[0], tensor.zero_points[0])
