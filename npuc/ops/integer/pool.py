"""Quantized pooling and means over rows and columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isa import arithmetic
from npuc.graph.types import Array, TensorType
from npuc.ops.integer.accumulate import pad_window, window_view
from npuc.ops.integer.operand import Range, require_operand, require_range
from npuc.ops.integer.rescale import Rescale
from npuc.ops.op import Op
from npuc.ops.window import Window


@dataclass(frozen=True)
class QMaxPool(Op):
    """Largest value in each window, clamped: x int8 [n,c,h,w] -> y int8 [n,c,oh,ow]; padding does not count."""

    window: Window
    clamp: Range

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return _infer_pool(inputs[0], self.window, self.clamp)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        windows = window_view(pad_window(inputs[0], self.window, -128), self.window)
        return (np.clip(windows.max(axis=(4, 5)), *self.clamp),)


@dataclass(frozen=True)
class QAveragePool(Op):
    """Rounded mean of the stored values of each window, clamped: x int8 [n,c,h,w] -> y int8 [n,c,oh,ow].

    Padding does not count; with `count_include_pad` it counts and holds `input_zero_point`. Halves round away from
    zero, with `halves_up` towards plus infinity: the values stand for those of an unsigned model, less 128.
    """

    window: Window
    clamp: Range
    count_include_pad: bool = False
    input_zero_point: int = 0
    halves_up: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return _infer_pool(inputs[0], self.window, self.clamp)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        fill = self.input_zero_point if self.count_include_pad else 0
        total = window_view(pad_window(x, self.window, fill), self.window).sum(axis=(4, 5), dtype=np.int32)
        counted = pad_window(np.ones((1, 1, *x.shape[2:]), np.int32), self.window, int(self.count_include_pad))
        count = window_view(counted, self.window).sum(axis=(4, 5))
        return (arithmetic.average_pool(total, count, *self.clamp, self.halves_up).astype(np.int8),)


@dataclass(frozen=True)
class QMean(Op):
    """Mean over all rows and columns: x int8 [n,c,h,w] -> y int8 [n,c,1,1].

    `rescale` is the factor from input scale to output scale; 1 / (h * w) joins it as `arithmetic.mean` says.
    """

    rescale: Rescale
    input_zero_point: int
    output_zero_point: int
    clamp: Range

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_operand(inputs[0], "input", self.input_zero_point)
        require_range(self.clamp)
        return (TensorType("int8", (*inputs[0].shape[:2], 1, 1)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.int64) - self.input_zero_point
        total = x.sum(axis=(2, 3), keepdims=True)
        count = x.shape[2] * x.shape[3]
        return (arithmetic.mean(total, count, self.rescale, self.output_zero_point, *self.clamp).astype(np.int8),)


def _infer_pool(x: TensorType, window: Window, clamp: Range) -> tuple[TensorType, ...]:
    require_operand(x, "input")
    require_range(clamp)
    for axis in range(2):
        reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        if max(window.pads[axis], window.pads[axis + 2]) >= reach:
            raise ValueError(f"pads {list(window.pads)} leave windows without input, kernel {list(window.kernel)}")
    return (replace(x, shape=(*x.shape[:2], *window.output_shape(*x.shape[2:])), layout=None),)
