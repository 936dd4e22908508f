"""Bilinear resizing of int8 images."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isa.resize import ONE, interpolate, positions
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.operand import require_operand
from npuc.ops.op import Op


@dataclass(frozen=True)
class QResizeBilinear(Op):
    """Bilinear interpolation, `isa.resize`: x int8 [n,c,h,w] -> y int8 [n,c,*size].

    `align_corners` maps the last pixels on each other, `half_pixel_centers` the centers of pixels, not their corners.
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
        x = inputs[0]
        rows, pixels = (positions(range(n), *self.steps(i, x.shape[2 + i]), x.shape[2 + i])
                        for i, n in enumerate(self.size))  # fmt: skip
        return (interpolate(x.astype(np.int64), rows, pixels).astype(np.int8),)

    def steps(self, axis: int, n_input: int) -> tuple[int, int]:
        """Scale and offset of rows (axis 0) or pixels (1): input over output in 1/1024, rounded half up."""
        n_output, n_steps = self.size[axis], n_input
        if self.align_corners and n_output > 1:
            n_output, n_steps = n_output - 1, n_input - 1
        scale = (n_steps * ONE + n_output // 2) // n_output
        return scale, scale // 2 - ONE // 2 if self.half_pixel_centers else 0
