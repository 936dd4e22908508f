"""The geometry that convolution and pooling share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Window:
    """A window that slides over rows and columns; `pads` are (top, left, bottom, right) pixels."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    def output_shape(self, h: int, w: int) -> tuple[int, int]:
        """Rows and columns of windows that lie inside the padded [h, w]; raises ValueError when none does."""
        sizes = (h + self.pads[0] + self.pads[2], w + self.pads[1] + self.pads[3])
        out = []
        for size, kernel, stride, dilation in zip(sizes, self.kernel, self.stride, self.dilation, strict=True):
            reach = (kernel - 1) * dilation + 1
            if size < reach:
                raise ValueError(f"window of {reach} pixels on a padded input of {size}")
            out.append((size - reach) // stride + 1)
        return out[0], out[1]
