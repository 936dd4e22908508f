"""Convolution: dense, grouped and depthwise are one operator."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npuc.graph.types import Array, TensorType
from npuc.ops.elementwise import require_float
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.op import Op
from npuc.ops.spatial import in_rows, read_window, window_attributes
from npuc.ops.window import Window


@dataclass(frozen=True)
class Conv(Op):
    """x[n,cin,h,w], weight[cout,cin/groups,kh,kw], bias[cout] -> y[n,cout,oh,ow]; pads count as zeros."""

    window: Window
    groups: int = 1

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_float(*inputs)
        x, weight, bias = (value.shape for value in inputs)
        if len(x) != 4 or len(weight) != 4:
            raise ValueError(f"convolution of {list(x)} with weights {list(weight)}, both need rank 4")
        if self.groups < 1 or x[1] != weight[1] * self.groups or weight[0] % self.groups:
            raise ValueError(f"{x[1]} channels, weights {list(weight)} and {self.groups} groups do not fit together")
        if weight[2:] != self.window.kernel or bias != weight[:1]:
            raise ValueError(f"weights {list(weight)}, kernel {list(self.window.kernel)} and bias {list(bias)} differ")
        return (TensorType("float32", (x[0], weight[0], *self.window.output_shape(*x[2:]))),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, weight, bias = inputs
        n, cin = x.shape[:2]
        taps = window_taps(x, self.window, 0.0)
        oh, ow = taps.shape[2:4]
        columns = taps.reshape(n, self.groups, cin // self.groups, oh, ow, -1)
        filters = weight.reshape(self.groups, -1, cin // self.groups, columns.shape[-1])
        y = np.einsum("ngchwk,gmck->ngmhw", columns, filters, optimize=True)
        return (y.reshape(n, -1, oh, ow) + bias.reshape(1, -1, 1, 1),)


def window_taps(x: Array, window: Window, fill: float) -> Array:
    """Elements under each window: x[n,c,h,w] -> [n,c,oh,ow,kh,kw]; pads hold `fill`."""
    top, left, bottom, right = window.pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(window.kernel, window.dilation, strict=True))
    views = sliding_window_view(padded, reach, axis=(2, 3))
    (sh, sw), (dh, dw) = window.stride, window.dilation
    return views[:, :, ::sh, ::sw, ::dh, ::dw]


@from_onnx("Conv")
def import_conv(node: OnnxNode) -> str:
    """Weights and bias are constants; a 1-D convolution becomes one row of a 2-D convolution."""
    weight = node.constant(1, "weight")
    if weight.ndim not in (3, 4) or weight.ndim != len(node.shape()):
        raise Refusal(f"weights {list(weight.shape)} on an input of rank {len(node.shape())}, allowed are 1-D and 2-D")
    kernel = weight.shape[2:]
    if (declared := node.integers("kernel_shape")) not in (None, kernel):
        raise Refusal(f"kernel_shape {declared} differs from the weights {list(weight.shape)}")
    op = Conv(read_window(node, kernel, node.shape()[2:]), node.integer("group", 1))
    weight_name = node.input(1) if weight.ndim == 4 else node.literal(weight[:, :, None, :])
    zeros = np.zeros(weight.shape[0], np.float32)
    bias = node.input(2) if node.has(2) else node.literal(zeros)
    if node.has(2):
        node.constant(2, "bias")
    return in_rows(node, node.input(0), lambda x: node.emit(op, x, weight_name, bias))


@to_onnx(Conv)
def export_conv(op: Conv, export: OnnxExport) -> None:
    """One Conv."""
    export.node("Conv", export.inputs, export.outputs, group=op.groups, **window_attributes(op.window))
