"""Pooling over windows and over whole channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.conv import window_taps
from npuc.ops.elementwise import require_float, same_float
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.op import Op
from npuc.ops.spatial import in_rows, read_window, window_attributes
from npuc.ops.structure import Reshape
from npuc.ops.window import Window


@dataclass(frozen=True)
class MaxPool(Op):
    """Largest element under each window, pads never win: x[n,c,h,w] -> y[n,c,oh,ow]."""

    window: Window

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return infer_pool(self.window, inputs[0])

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (window_taps(inputs[0], self.window, -np.inf).max(axis=(-2, -1)),)


@dataclass(frozen=True)
class AveragePool(Op):
    """Mean of the elements under each window: x[n,c,h,w] -> y[n,c,oh,ow].

    Pads count as zeros when `count_include_pad`, else they are left out of the sum and of the count.
    """

    window: Window
    count_include_pad: bool = False

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return infer_pool(self.window, inputs[0])

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        total = window_taps(x, self.window, 0).sum(axis=(-2, -1))
        if self.count_include_pad:
            return (total / x.dtype.type(self.window.kernel[0] * self.window.kernel[1]),)
        count = window_taps(np.ones((1, 1, *x.shape[2:]), x.dtype), self.window, 0).sum(axis=(-2, -1))
        return (total / count,)


@dataclass(frozen=True)
class SpatialMean(Op):
    """Mean over rows and columns: x[n,c,h,w] -> y[n,c,1,1]."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        (x,) = same_float(*inputs)
        if len(x.shape) != 4:
            raise ValueError(f"spatial mean of a tensor of rank {len(x.shape)}, allowed is 4")
        return (replace(x, shape=(*x.shape[:2], 1, 1)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].mean(axis=(2, 3), keepdims=True),)


def infer_pool(window: Window, x: TensorType) -> tuple[TensorType, ...]:
    """Type of a pooling result; ValueError when a window lies in the pads altogether."""
    require_float(x)
    if len(x.shape) != 4:
        raise ValueError(f"pooling of a tensor of rank {len(x.shape)}, allowed is 4")
    reach = [(k - 1) * d + 1 for k, d in zip(window.kernel, window.dilation, strict=True)]
    if any(pad >= reach[i % 2] for i, pad in enumerate(window.pads)):
        raise ValueError(f"pads {list(window.pads)} reach the whole window of {reach}")
    return (TensorType("float32", (*x.shape[:2], *window.output_shape(*x.shape[2:]))),)


def extend_for_ceil(window: Window, h: int, w: int) -> Window:
    """More pads at the end for ceil_mode=1; a window that would start in them is dropped."""
    top, left, bottom, right = window.pads
    after = []
    for size, before, end, i in ((h, top, bottom, 0), (w, left, right, 1)):
        stride, reach = window.stride[i], (window.kernel[i] - 1) * window.dilation[i] + 1
        n = -(-(before + size + end - reach) // stride) + 1
        if (n - 1) * stride >= before + size:
            n -= 1
        after.append(max(end, (n - 1) * stride + reach - before - size))
    return replace(window, pads=(top, left, after[0], after[1]))


def import_pool(node: OnnxNode, make: Callable[[Window, bool], Op]) -> str:
    """A pooling node; `make` gets the window and whether ceil_mode enlarged it."""
    kernel = node.integers("kernel_shape") or ()

    def build(x: str) -> str:
        h, w = node.shape_of(x)[2:]
        window = read_window(node, kernel, node.shape()[2:])
        extended = extend_for_ceil(window, h, w) if node.integer("ceil_mode", 0) else window
        return node.emit(make(extended, extended != window), x)

    return in_rows(node, node.input(0), build)


@from_onnx("MaxPool")
def import_max_pool(node: OnnxNode) -> str:
    """Values only; the indices output is refused."""
    if any(node.used[1:]):
        raise Refusal("the indices output is used", "remove it from the model")
    return import_pool(node, lambda window, _: MaxPool(window))


@from_onnx("AveragePool")
def import_average_pool(node: OnnxNode) -> str:
    """With or without the pads in the count."""
    include = bool(node.integer("count_include_pad", 0))

    def make(window: Window, extended: bool) -> Op:
        if include and extended:
            raise Refusal("ceil_mode and count_include_pad together", "pad the input explicitly instead")
        return AveragePool(window, include and any(window.pads))

    return import_pool(node, make)


@from_onnx("GlobalAveragePool")
def import_global_average_pool(node: OnnxNode) -> str:
    """Mean of each channel."""
    return in_rows(node, node.input(0), lambda x: node.emit(SpatialMean(), x))


@from_onnx("GlobalMaxPool")
def import_global_max_pool(node: OnnxNode) -> str:
    """A window as large as the input."""

    def build(x: str) -> str:
        h, w = node.shape_of(x)[2:]
        return node.emit(MaxPool(Window((h, w))), x)

    return in_rows(node, node.input(0), build)


@from_onnx("ReduceMean")
def import_reduce_mean(node: OnnxNode) -> str:
    """Over the rows and columns of [n,c,h,w] only."""
    shape = node.shape()
    axes = node.integers("axes", 1) or tuple(range(len(shape)))
    if len(shape) != 4 or sorted(node.axis(a, 4) for a in axes) != [2, 3]:
        raise Refusal(f"mean over axes {list(axes)} of {list(shape)}, allowed are axes [2, 3] of a tensor of rank 4")
    y = node.emit(SpatialMean(), node.input(0))
    return y if node.integer("keepdims", 1) else node.emit(Reshape(shape[:2]), y)


@to_onnx(MaxPool)
def export_max_pool(op: MaxPool, export: OnnxExport) -> None:
    """One MaxPool."""
    export.node("MaxPool", export.inputs, export.outputs, **window_attributes(op.window))


@to_onnx(AveragePool)
def export_average_pool(op: AveragePool, export: OnnxExport) -> None:
    """One AveragePool."""
    include = int(op.count_include_pad)
    export.node("AveragePool", export.inputs, export.outputs, count_include_pad=include, **window_attributes(op.window))


@to_onnx(SpatialMean)
def export_spatial_mean(_op: SpatialMean, export: OnnxExport) -> None:
    """One GlobalAveragePool."""
    export.node("GlobalAveragePool", export.inputs, export.outputs)
