"""Bilinear resizing of int8 images."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isa.fixed_point import Int64Array
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.operand import require_operand
from npuc.ops.op import Op


@dataclass(frozen=True)
class QResizeBilinear(Op):
    """Bilinear interpolation: x int8 [n,c,h,w] -> y int8 [n,c,*size], as TensorFlow Lite's integer kernel does it.

    Positions and weights have 10 fractional bits. The scale is (input << 10) / output, rounded; `align_corners` takes
    one off both sizes, `half_pixel_centers` moves positions by half a pixel.
    """

    size: tuple[int, int]
    align_corners: bool = False
    half_pixel_centers: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_operand(inputs[0], "input")
        if min(self.size) < 1 or (self.align_corners and self.half_pixel_centers):
            raise ValueError(f"resize to {list(self.size)} with both conventions, or to nothing")
        return (replace(inputs[0], shape=(*inputs[0].shape[:2], *self.size), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.int64)
        top, bottom, down = self._positions(0, x.shape[2])
        left, right, across = self._positions(1, x.shape[3])
        rows = x[:, :, top] * (1024 - down)[:, None] + x[:, :, bottom] * down[:, None]
        total = rows[..., left] * (1024 - across) + rows[..., right] * across
        half = np.where(total > 0, 1 << 19, -(1 << 19))
        quotient = np.abs(total + half) >> 20
        return ((np.sign(total + half) * quotient).astype(np.int8),)

    def _positions(self, axis: int, n_input: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Lower and upper neighbours of each output position, and 1024 times its distance from the lower one."""
        n_output, n_steps = self.size[axis], n_input
        if self.align_corners and n_output > 1:
            n_output, n_steps = n_output - 1, n_input - 1
        scale = ((n_steps << 10) + n_output // 2) // n_output
        position = np.arange(self.size[axis], dtype=np.int64) * scale
        if self.half_pixel_centers:
            position += scale // 2 - 512
        # C's division truncates, so that positions just below zero have neighbour 0 on both sides.
        lower = np.maximum(np.trunc(position / 1024).astype(np.int64), 0)
        upper = np.minimum(np.trunc((position + 1023) / 1024).astype(np.int64), n_input - 1)
        return lower, upper, position - (lower << 10)
