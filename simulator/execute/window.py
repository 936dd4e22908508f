"""The input window of an output region: taps outside the input are filled, never read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulator.execute.binding import Binding
from simulator.memory import Array
from simulator.operand import Access, Region


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a window: `length` positions from input position `start`, `inside` of them in the input."""

    start: int
    length: int
    inside: range
    taps: int
    stride: int
    dilation: int
    outputs: int

    def valid_taps(self) -> Array:
        """[outputs]: taps inside the input."""
        position = np.arange(self.outputs)[:, None] * self.stride + np.arange(self.taps) * self.dilation + self.start
        count: Array = ((position >= self.inside.start) & (position < self.inside.stop)).sum(axis=1)
        return count

    def tap(self, index: int, outputs: slice) -> slice:
        """Positions of the window that tap `index` takes for these outputs."""
        first = index * self.dilation + outputs.start * self.stride
        return slice(first, first + (outputs.stop - outputs.start - 1) * self.stride + 1, self.stride)


def _axis(binding: Binding, name: str, pad: str, first: int, outputs: int, input_length: int) -> Axis:
    taps, stride, dilation = (binding.descriptor[f"{field}_{name}"] for field in ("kernel", "stride", "dilation"))
    start = first * stride - binding.descriptor[pad]
    length = (outputs - 1) * stride + (taps - 1) * dilation + 1
    low, high = max(start, 0), min(start + length, input_length)
    return Axis(start, length, range(low, max(low, high)), taps, stride, dilation, outputs)


class Window:
    """The input rows and pixels that an output region needs, for the channels [first, first + channels)."""

    def __init__(self, binding: Binding, region: Region, first: int, channels: int) -> None:
        layer = binding.descriptor
        self.rows = _axis(binding, "h", "pad_top", region.y, region.height, layer["ifm_height"])
        self.pixels = _axis(binding, "w", "pad_left", region.x, region.width, layer["ifm_width"])
        self.channels = channels
        binding.check_elements(*self.shape)
        inside, across = self.rows.inside, self.pixels.inside
        self._access: Access | None = None
        if inside and across:
            box = Region(region.n, inside.start, across.start, first, len(inside), len(across), channels)
            self._access = binding.reads("ifm", box)
        top, left = inside.start - self.rows.start, across.start - self.pixels.start
        self._inner = (slice(top, top + len(inside)), slice(left, left + len(across)))
        self._covers_all = (len(inside), len(across)) == (self.rows.length, self.pixels.length)

    @property
    def shape(self) -> tuple[int, int, int]:
        """[rows, pixels, channels], padding included."""
        return self.rows.length, self.pixels.length, self.channels

    def read_into(self, dense: Array, fill: int) -> None:
        """Copy the window into `dense` [rows, pixels, channels], `fill` where it lies outside the input."""
        if not self._covers_all:
            dense[...] = fill
        if self._access is not None:
            self._access.read_into(dense[self._inner])

    def taps(self, dense: Array, rows: slice) -> Iterator[tuple[int, Array]]:
        """(number, [these output rows, output pixels, channels]) of every tap of a window read into `dense`."""
        pixels = slice(0, self.pixels.outputs)
        for i in range(self.rows.taps):
            for j in range(self.pixels.taps):
                yield i * self.pixels.taps + j, dense[self.rows.tap(i, rows), self.pixels.tap(j, pixels)]
