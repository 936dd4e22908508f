"""Vector instructions that reduce rows and pixels: windows, and the whole input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isa import arithmetic
from simulator.execute.binding import Binder, Binding, Step
from simulator.execute.constants import clamp, rescale
from simulator.execute.window import Window
from simulator.operand import Region


def _window(binding: Binding) -> Window:
    region = binding.region
    binding.require_8_bit("ifm", "ofm")
    return Window(binding, region, region.c, region.channels)


def _counts(binding: Binding, window: Window) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
    """[rows, pixels, 1]: taps inside the input; a window without any has no value."""
    counts = window.rows.valid_taps()[:, None, None] * window.pixels.valid_taps()[:, None]
    if not counts.all():
        raise binding.site.fault("pools a window that lies outside the input", "make the padding less than the kernel")
    return counts


def _maxpool(binding: Binding) -> Step:
    window = _window(binding)
    _counts(binding, window)
    low, high = clamp(binding)
    kind = binding.operand("ifm").dtype
    output = binding.writes(binding.region)
    take, every_row, smallest = binding.workspace.take, slice(0, output.shape[0]), int(np.iinfo(kind).min)

    def step() -> None:
        dense = take("window", window.shape, kind)
        window.read_into(dense, smallest)
        largest = take("output", output.shape, kind)
        largest.fill(smallest)
        for _, taken in window.taps(dense, every_row):
            np.maximum(largest, taken, out=largest)
        output.write(np.clip(largest.astype(np.int16), low, high))

    return step


def _avgpool(binding: Binding) -> Step:
    window = _window(binding)
    low, high = clamp(binding)
    padded, halves_up = 0, bool(binding.descriptor["halves_up"])
    counts = _counts(binding, window)
    if binding.descriptor["count_pad"]:
        padded = binding.operand("ifm").zero_point
        counts = np.full_like(counts, window.rows.taps * window.pixels.taps)
    output = binding.writes(binding.region)
    take, every_row = binding.workspace.take, slice(0, output.shape[0])

    def step() -> None:
        dense = take("window", window.shape, np.int32)
        window.read_into(dense, padded)
        total = np.zeros(output.shape, np.int32)
        for _, taken in window.taps(dense, every_row):
            np.add(total, taken, out=total)
        output.write(arithmetic.average_pool(total, counts, low, high, halves_up))

    return step


def _mean(binding: Binding) -> Step:
    region, layer = binding.region, binding.descriptor
    binding.require_8_bit("ifm", "ofm")
    height, width = layer["ifm_height"], layer["ifm_width"]
    count = height * width
    if region.y or region.x or region.height > 1 or region.width > 1:
        raise binding.site.fault("computes a mean for more than one output pixel, allowed: row 0, pixel 0")
    if not 0 < count < 1 << 23:
        raise binding.site.fault(f"computes a mean of {count} elements, allowed: 1 to {(1 << 23) - 1}")
    binding.check_elements(height, width, region.channels)
    factor, (low, high) = rescale(binding, "out"), clamp(binding)
    source = binding.reads("ifm", Region(region.n, 0, 0, region.c, height, width, region.channels))
    output = binding.writes(region)
    zero_point, output_zero_point = binding.operand("ifm").zero_point, binding.operand("ofm").zero_point

    def step() -> None:
        total = source.read().sum(axis=(0, 1), keepdims=True, dtype=np.int64) - count * zero_point
        output.write(arithmetic.mean(total, count, factor, output_zero_point, low, high))

    return step


BINDERS: Mapping[str, Binder] = {"vec.maxpool": _maxpool, "vec.avgpool": _avgpool, "vec.mean": _mean}
