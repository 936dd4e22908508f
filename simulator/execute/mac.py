"""The MAC array: exact int8 convolutions through float32 BLAS, in strips of output rows that stay in the caches.

A sum of products of 8-bit operands is exact in float32 while it stays within 2^24; longer sums are cut into chunks
that are added in integers. The input's zero point is folded into the bias: taps outside the input read the zero point
like any other tap, so they need no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.execute.binding import Binder, Binding, Step
from simulator.execute.output_stage import OutputStage
from simulator.execute.scales import bind_scales
from simulator.execute.weights import bind_packed_weights
from simulator.execute.window import Window
from simulator.memory import Array

STRIP_ELEMENTS = 1 << 17
"""Elements of a strip's working set that the caches hold."""


@dataclass(frozen=True)
class _Sums:
    """What the ranges of 8-bit operands imply for their sums of products."""

    weight: int
    """A bound of every weight's magnitude, zero point subtracted."""

    chunk: int
    """Products that a float32 sum holds exactly."""
    largest: int
    """A bound of every sum's magnitude, zero points subtracted."""

    def accumulator(self, bias: Array) -> type[np.int32] | type[np.int64]:
        """int32 when the sum with its bias provably fits; int64 when it has to be watched."""
        return np.int32 if self.largest + int(np.abs(bias).max()) < 1 << 31 else np.int64


def _sums(binding: Binding, products: int) -> _Sums:
    info = np.iinfo(binding.operand("ifm").dtype)
    weight = 128 + abs(binding.descriptor["weight_zero_point"])
    product = weight * max(-info.min, info.max)
    return _Sums(weight, 1 << (24 - (product - 1).bit_length()), products * weight * (info.max - info.min))


def _strips(rows: int, elements_of_a_row: int) -> Iterator[slice]:
    step = max(1, STRIP_ELEMENTS // elements_of_a_row)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def unpack_weights(packed: Array, products: int, channels: int, lanes: int, out: Array) -> None:
    """[channels / lanes][products][lanes], the last group ragged, into `out` [products, channels]."""
    whole = channels - channels % lanes
    groups = packed[: whole * products].reshape(-1, products, lanes)
    np.copyto(out[:, :whole].reshape(products, -1, lanes), groups.transpose(1, 0, 2), casting="unsafe")
    np.copyto(out[:, whole:], packed[whole * products :].reshape(products, channels - whole), casting="unsafe")


def _weights(binding: Binding, products: int) -> Callable[[], Array]:
    """Bind the packed weights; called, they are [products, output channels] float32, zero point subtracted."""
    channels, zero_point = binding.values["channels"], binding.descriptor["weight_zero_point"]
    if not -128 <= zero_point <= 127:
        raise binding.site.fault(f"weights have zero point {zero_point}, allowed: -128 to 127")
    binding.check_elements(products, channels)
    packed = bind_packed_weights(binding, products * channels)

    def unpack() -> Array:
        matrix = binding.workspace.take("weights", (products, channels), np.float32)
        unpack_weights(packed(), products, channels, binding.cout_lanes, matrix)
        if zero_point:
            matrix -= zero_point
        return matrix

    return unpack


def _folded_bias(bias: Array, weights: Array, zero_point: int, sums: _Sums) -> Array:
    """Bias of the raw sums [channels], of the accumulator's type; modulo 2^32 when that is int32."""
    kind = np.float32 if len(weights) * sums.weight <= 1 << 24 else np.float64
    folded: Array = bias - weights.sum(axis=0, dtype=kind).astype(np.int64) * zero_point
    return folded.astype(sums.accumulator(bias))


def _conv(binding: Binding) -> Step:
    region, v = binding.region, binding.values
    binding.require_8_bit("ifm")
    window = Window(binding, region, v["k"], v["k_channels"])
    products = window.rows.taps * window.pixels.taps * window.channels
    weights = _weights(binding, products)
    scales_of, sums_of = bind_scales(binding, region), _sums(binding, products)
    stage = OutputStage(binding, region)
    zero_point = binding.operand("ifm").zero_point
    take = binding.workspace.take
    columns_of = _columns(window, region.width)
    row_elements = region.width * (products + region.channels)

    def step() -> None:
        dense = take("window", window.shape, np.float32)
        window.read_into(dense, zero_point)
        matrix, scales = weights(), scales_of()
        bias = _folded_bias(scales.bias, matrix, zero_point, sums_of)
        output = take("output", (region.height, region.width, region.channels), stage.dtype)
        for rows in _strips(region.height, row_elements):
            shape = (rows.stop - rows.start, region.width)
            columns = columns_of(dense, rows, take("columns", (*shape, products), np.float32))
            sums = _multiply(binding, columns, matrix, sums_of.chunk, bias.dtype)
            sums += bias
            stage.run(sums.reshape(*shape, region.channels), scales, rows, output)
        stage.store(output)

    return step


def _columns(window: Window, width: int) -> Callable[[Array, slice, Array], Array]:
    """The im2col of a strip: [pixels, taps x channels]."""
    channels, (taps_h, taps_w) = window.channels, (window.rows.taps, window.pixels.taps)

    def columns(dense: Array, rows: slice, scratch: Array) -> Array:
        if taps_h == taps_w == window.rows.stride == window.pixels.stride == 1:
            return dense[rows].reshape(-1, channels)
        row, pixel, element = dense.strides
        shape = (rows.stop - rows.start, width, taps_h, taps_w, channels)
        h, w = window.rows, window.pixels
        strides = (row * h.stride, pixel * w.stride, row * h.dilation, pixel * w.dilation, element)
        taps: Array = np.ndarray(shape, dense.dtype, dense, rows.start * h.stride * row, strides)
        np.copyto(scratch.reshape(shape), taps)
        return scratch.reshape(-1, taps_h * taps_w * channels)

    return columns


def _multiply(binding: Binding, columns: Array, matrix: Array, chunk: int, kind: np.dtype[Any]) -> Array:
    """columns [pixels, products] x matrix [products, channels], exactly."""
    shape = (len(columns), matrix.shape[1])
    sums = binding.workspace.take("sums", shape, kind)
    part = binding.workspace.take("part", shape, np.float32)
    for first in range(0, len(matrix), chunk):
        products = slice(first, first + chunk)
        np.matmul(columns[:, products], matrix[products], out=part)
        if first == 0:
            np.copyto(sums, part, casting="unsafe")
        else:
            np.add(sums, part.astype(kind), out=sums)
    return sums


def _depthwise(binding: Binding) -> Step:
    region = binding.region
    binding.require_8_bit("ifm")
    window = Window(binding, region, region.c, region.channels)
    n_taps = window.rows.taps * window.pixels.taps
    weights = _weights(binding, n_taps)
    scales_of, sums_of = bind_scales(binding, region), _sums(binding, n_taps)
    stage = OutputStage(binding, region)
    kind = np.float32 if n_taps <= sums_of.chunk else np.int32
    zero_point = binding.operand("ifm").zero_point
    take = binding.workspace.take

    def step() -> None:
        dense = take("window", window.shape, kind)
        window.read_into(dense, zero_point)
        matrix, scales = weights(), scales_of()
        bias = _folded_bias(scales.bias, matrix, zero_point, sums_of)
        matrix = matrix.astype(kind, copy=False)
        output = take("output", (region.height, region.width, region.channels), stage.dtype)
        for rows in _strips(region.height, 4 * region.width * region.channels):
            shape = (rows.stop - rows.start, region.width, region.channels)
            total, product = take("columns", shape, kind), take("part", shape, kind)
            total.fill(0)
            for tap, taken in window.taps(dense, rows):
                np.multiply(taken, matrix[tap], out=product)
                np.add(total, product, out=total)
            sums = take("sums", shape, bias.dtype)
            np.copyto(sums, total, casting="unsafe")
            sums += bias
            stage.run(sums, scales, rows, output)
        stage.store(output)

    return step


BINDERS: Mapping[str, Binder] = {"mac.conv": _conv, "mac.depthwise": _depthwise}
