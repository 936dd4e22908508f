"""A table applied by the array: a convolution that changes nothing, with the table in its output stage.

Where the output stage is much faster than the vector unit's tables, a kernel of the array is shorter, even with the
constants of its channels to fetch.
"""

from __future__ import annotations

import numpy as np

from isa.scale_record import Scales, pack, shortest_form
from isa.target import Rate, Target
from npuc.graph.graph import Node
from npuc.graph.types import Layout, TensorType
from npuc.lower.conv import FACTOR_ONE, pack_weights, window_fields
from npuc.lower.kernel import POINT, ChannelGroup, Kernel, Parameters
from npuc.lower.operand import Operand, element_type
from npuc.ops.integer.elementwise import Lookup

ADVANTAGE = 2
"""Times that the array must be faster: it mostly has more to do than the vector unit."""

MOST_PIXELS, MOST_ROWS = 256, 32768
"""Of the image that stands for the bytes."""


def table_on_array(node: Node, source: TensorType, result: TensorType, target: Target) -> list[Kernel]:
    """Lookup => mac.depthwise with weights 1, factor 1 and the table; none when the vector unit had better do it.

    source int8 or uint8, result int8, both dense in the same order; their bytes are an image of as many channels as a
    block has.
    """
    op, channels = node.op, target.architecture.channel_block
    before, after = source.layout, result.layout
    if not isinstance(op, Lookup) or op.dtype != "int8" or before is None or after is None:
        return []
    shape = _image(source.n_elements, channels)
    same_order = not before.block and before.strides == after.strides and _is_dense(before, source)
    if shape is None or not same_order or before.storage == after.storage:
        return []
    ones = np.ones((channels, 1, 1, 1), np.int8)
    scales = Scales(*(np.full(channels, number, np.int64) for number in (0, *FACTOR_ONE)))
    form = shortest_form(scales)
    entries, weights = np.array(op.table, np.int8).tobytes(), pack_weights(ones, target.architecture.cout_lanes)
    parameters = Parameters(pack(scales, form), entries, b"", weights, 1)
    array, vector = target.costs.output_stage, target.costs.vector_table
    fetched = parameters.n_bytes // target.board.flash_bytes_per_cycle
    if ADVANTAGE * (_cycles(source.n_elements, array) + fetched) > _cycles(source.n_elements, vector):
        return []
    fields = {
        **window_fields(POINT), "scale_form": form, "double_round": 0, "clamp_low": -128, "clamp_high": 127,
        "weight_zero_point": 0, "use_table": 1,
    }  # fmt: skip
    ifm = _operand(before, shape, source.dtype, 128 if source.dtype == "uint8" else 0, channels)
    ofm = _operand(after, shape, result.dtype, 0, channels)
    groups = (ChannelGroup(0, channels, 0, 1),)
    return [Kernel(node.name, "mac.depthwise", node.sources, ofm, ifm, None, fields, parameters, groups)]


def _cycles(n_elements: int, rate: Rate) -> int:
    return -(-n_elements * rate.denominator // rate.numerator)


def _image(n_bytes: int, channels: int) -> tuple[int, int, int, int] | None:
    """[1, rows, pixels, channels] of so many bytes, with as many pixels in a row as there may be."""
    pixels, rest = divmod(n_bytes, channels)
    width = max((w for w in range(1, MOST_PIXELS + 1) if pixels % w == 0), default=0)
    return None if rest or not pixels or pixels // width > MOST_ROWS else (1, pixels // width, width, channels)


def _is_dense(layout: Layout, type_: TensorType) -> bool:
    """True when the bytes of the value follow each other without gaps, in whatever order."""
    step = 1
    for size, stride in sorted(zip(type_.shape, layout.strides, strict=True), key=lambda axis: axis[1]):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _operand(layout: Layout, shape: tuple[int, int, int, int], dtype: str, zero_point: int, channels: int) -> Operand:
    _, height, width, _ = shape
    row, pixel = (width * channels if height > 1 else 0), (channels if width > 1 else 0)
    element = element_type(dtype)
    return Operand(layout.storage, layout.offset_bytes, shape, 0, row, pixel, 0, channels, element, zero_point)
