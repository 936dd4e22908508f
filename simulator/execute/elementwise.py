"""Vector instructions whose output element depends on the input elements of the same place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from isa import arithmetic
from isa.arithmetic import Addition, IntArray
from isa.fixed_point import Int64Array
from isa.resize import Positions, interpolate, positions
from isa.sigmoid import SIGMOID_INTEGER_BITS, sigmoid16, tanh16
from simulator.execute.binding import Binder, Binding, Step
from simulator.execute.constants import addition, clamp, rescale
from simulator.operand import Region

MAX_INTEGER_BITS = 15
"""Of an int16 value with no fraction."""


def _sum(arithmetic_sum: Callable[[IntArray, IntArray, Addition], Int64Array]) -> Binder:
    def bind(binding: Binding) -> Step:
        region = binding.region
        binding.require_integers("ifm", "ifm2", "ofm")
        constants = addition(binding, binding.operand("ifm").zero_point)
        first, second = binding.reads("ifm", region), binding.reads("ifm2", region)
        output = binding.writes(region)
        return lambda: output.write(arithmetic_sum(first.read(), second.read(), constants))

    return bind


def _mul(binding: Binding) -> Step:
    region = binding.region
    binding.require_integers("ifm", "ifm2", "ofm")
    factor, (low, high) = rescale(binding, "out"), clamp(binding)
    zero_points = tuple(binding.operand(prefix).zero_point for prefix in ("ifm", "ifm2", "ofm"))
    first, second = binding.reads("ifm", region), binding.reads("ifm2", region)
    output = binding.writes(region)

    def step() -> None:
        a, b = first.read(), second.read()
        output.write(arithmetic.mul(a, b, zero_points[0], zero_points[1], factor, zero_points[2], low, high))

    return step


def _table(binding: Binding) -> Step:
    region = binding.region
    binding.require_8_bit("ifm")
    table, source = binding.table(), binding.reads("ifm", region)
    output = binding.writes(region)
    return lambda: output.write(arithmetic.lookup(table, source.read()))


def _sigmoid(binding: Binding) -> Step:
    region = binding.region
    binding.require_int16("ifm", "ofm")
    if binding.descriptor["left_shift"] != SIGMOID_INTEGER_BITS:
        raise binding.site.fault(f"left_shift is {binding.descriptor['left_shift']}, allowed: {SIGMOID_INTEGER_BITS}")
    source = binding.reads("ifm", region)
    output = binding.writes(region)
    return lambda: output.write(sigmoid16(source.read().astype(np.int64)))


def _tanh(binding: Binding) -> Step:
    region, integer_bits = binding.region, binding.descriptor["left_shift"]
    binding.require_int16("ifm", "ofm")
    if integer_bits > MAX_INTEGER_BITS:
        raise binding.site.fault(f"left_shift is {integer_bits}, limit {MAX_INTEGER_BITS}")
    source = binding.reads("ifm", region)
    output = binding.writes(region)
    return lambda: output.write(tanh16(source.read().astype(np.int64), integer_bits))


def _copy(binding: Binding) -> Step:
    region = binding.region
    _require_same_width(binding)
    source = binding.reads("ifm", region)
    output = binding.writes(region)
    return lambda: output.write(source.read().astype(source.dtype).view(output.dtype))


def _resize(binding: Binding) -> Step:
    region = binding.region
    _require_same_width(binding)
    vertical, horizontal = binding.descriptor["stride_h"], binding.descriptor["stride_w"]
    rows = np.arange(region.y, region.y + region.height) // vertical
    pixels = np.arange(region.x, region.x + region.width) // horizontal
    top, left = int(rows[0]), int(pixels[0])
    height, width = int(rows[-1]) - top + 1, int(pixels[-1]) - left + 1
    source = binding.reads("ifm", Region(region.n, top, left, region.c, height, width, region.channels))
    output = binding.writes(region)
    index = np.ix_(rows - top, pixels - left)
    return lambda: output.write(source.read()[index].view(output.dtype))


def _bilinear(binding: Binding) -> Step:
    region, layer = binding.region, binding.descriptor
    binding.require_8_bit("ifm", "ofm")
    rows = _positions(binding, range(region.y, region.y + region.height), "multiplier_1", "mid_low", "ifm_height")
    pixels = _positions(binding, range(region.x, region.x + region.width), "multiplier_2", "mid_high", "ifm_width")
    top, left = int(rows.lower[0]), int(pixels.lower[0])
    height, width = int(rows.upper[-1]) - top + 1, int(pixels.upper[-1]) - left + 1
    source = binding.reads("ifm", Region(region.n, top, left, region.c, height, width, region.channels))
    output = binding.writes(region)
    down, across = (at._replace(lower=at.lower - first, upper=at.upper - first)
                    for at, first in ((rows, top), (pixels, left)))  # fmt: skip
    low, high = layer["clamp_low"], layer["clamp_high"]

    def step() -> None:
        value = source.read().astype(np.int64).transpose(2, 0, 1)
        output.write(np.clip(interpolate(value, down, across), low, high).transpose(1, 2, 0))

    return step


def _positions(binding: Binding, outputs: range, scale: str, offset: str, extent: str) -> Positions:
    found = positions(outputs, binding.descriptor[scale], binding.descriptor[offset], binding.descriptor[extent])
    if binding.descriptor[scale] < 0 or (found.lower > found.upper).any():
        raise binding.site.fault(f"interpolates beyond {extent} = {binding.descriptor[extent]}",
                                 f"make {scale} the input size over the output size, in 1/1024")  # fmt: skip
    return found


def _require_same_width(binding: Binding) -> None:
    source, output = (binding.operand(prefix).dtype for prefix in ("ifm", "ofm"))
    if source.itemsize != output.itemsize:
        raise binding.site.fault(f"copies {source} to {output}, allowed: elements of the same number of bytes")


BINDERS: Mapping[str, Binder] = {
    "vec.add": _sum(arithmetic.add),
    "vec.sub": _sum(arithmetic.sub),
    "vec.mul": _mul,
    "vec.table": _table,
    "vec.sigmoid": _sigmoid,
    "vec.tanh": _tanh,
    "vec.resize": _resize,
    "vec.bilinear": _bilinear,
    "vec.copy": _copy,
}
