"""Operators on float32, and between integers and float32, as calls of kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.arm.call import KernelCall, Rule, aligned, call, merge_axes, window_record
from npuc.arm.kernel_function import BINARY_FUNCTIONS, KINDS, POOL_FUNCTIONS, UNARY_FUNCTIONS
from npuc.arm.kernel_spec import PAIR, float_bits
from npuc.arm.memory import MemoryMap, View
from npuc.graph.types import TensorType
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize, Quotient, SquareRoot, ToFloat
from npuc.ops.matmul import MatMul
from npuc.ops.normalize import BatchNorm, Softmax
from npuc.ops.op import Op
from npuc.ops.pool import AveragePool, MaxPool, SpatialMean
from npuc.ops.unary import Unary
from npuc.ops.window import Window

BATCH_AXES = 2
"""Of a matrix product."""


def _quantize(op: Quantize, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, y = aligned(inputs[0], output)
    return [call("float_quantize", x=x, y=y, scale=float_bits(op.scale), zero_point=op.zero_point,
                 y_kind=KINDS[output.dtype], half_even=False)]  # fmt: skip


def _dequantize(op: Dequantize, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, y = aligned(inputs[0], output)
    return [call("float_dequantize", x=x, y=y, scale=float_bits(op.scale), zero_point=op.zero_point,
                 x_kind=KINDS[inputs[0].dtype])]  # fmt: skip


def _to_float(op: ToFloat, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, y = aligned(inputs[0], output)
    return [call("to_float", x=x, y=y, x_kind=KINDS[inputs[0].dtype])]


def _unary(x: View, y: View, function: str, *parameters: float) -> KernelCall:
    words = tuple(map(float_bits, (*parameters, 0.0, 0.0)))[:2]
    source, result = aligned(x, y)
    return call("float_unary", x=source, y=result, function=UNARY_FUNCTIONS[function], parameter=words)


def _function(op: Unary, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_unary(inputs[0], output, op.function, *op.parameters)]


def _square_root(op: SquareRoot, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_unary(inputs[0], output, "sqrt")]


def _relu(op: Relu, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_unary(inputs[0], output, "clip", 0.0, np.inf)]


def _clip(op: Clip, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return [_unary(inputs[0], output, "clip", op.low, op.high)]


def _binary(first: View, second: View, y: View, function: str) -> KernelCall:
    operands = dict(zip(PAIR, aligned(first, second, y), strict=True))
    return call("float_binary", **operands, function=BINARY_FUNCTIONS[function])


def _arithmetic(function: str) -> Rule:
    def rule(op: Op, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
        return [_binary(inputs[0], inputs[1], output, function)]

    return rule


def _softmax_row(axis: int, x: View, y: View, is_log: bool) -> list[KernelCall]:
    source, result = aligned(x.without(axis), y.without(axis))
    return [call("float_softmax", x=source, y=result, count=x.shape[axis], x_step=x.strides[axis],
                 y_step=y.strides[axis], is_log=is_log)]  # fmt: skip


def _softmax(op: Softmax, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return _softmax_row(op.axis, inputs[0], output, False)


def _log_softmax(op: LogSoftmax, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return _softmax_row(len(output.shape) - 1, inputs[0], output, True)


def _conv(op: Conv, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    x, weights, bias = inputs
    if not bias.is_row_major:
        raise ValueError("bias with gaps between its elements")
    return [call("float_conv2d", x=x.tensor(), weights=weights.tensor(), bias=bias.block, y=output.tensor(),
                 window=window_record(op.window), groups=op.groups)]  # fmt: skip


def _pool(window: Window, function: str, include_pad: bool, x: View, y: View) -> list[KernelCall]:
    return [call("float_pool", x=x.tensor(), y=y.tensor(), window=window_record(window),
                 function=POOL_FUNCTIONS[function], include_pad=include_pad)]  # fmt: skip


def _max_pool(op: MaxPool, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return _pool(op.window, "max", False, inputs[0], output)


def _average_pool(op: AveragePool, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    return _pool(op.window, "average", op.count_include_pad, inputs[0], output)


def _spatial_mean(op: SpatialMean, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    _, _, h, w = inputs[0].shape
    return _pool(Window((h, w)), "average", False, inputs[0], output)


def _matmul(op: MatMul, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    batch = output.shape[:-2]
    operands = [view.broadcast((*batch, *view.shape[-2:])) for view in (*inputs, output)]
    sizes, strides = merge_axes(batch, [view.strides[:-2] for view in operands], BATCH_AXES)
    tensors = {
        name: (view.block, (*sizes, *view.shape[-2:]), (*row, *view.strides[-2:]))
        for name, view, row in zip(PAIR, operands, strides, strict=True)
    }
    return [call("float_matmul", **tensors)]


def _batch_norm(op: BatchNorm, memory: MemoryMap, inputs: Sequence[View], output: View) -> list[KernelCall]:
    """factor = scale / sqrt(variance + epsilon) and offset = bias - mean * factor of each channel, then x."""
    x, scale, bias, mean, variance = inputs
    factor, offset = (memory.place(TensorType("float32", scale.shape), [0]) for _ in range(2))
    epsilon = memory.constant(np.full(1, op.epsilon, np.float32))
    columns = [view.reshape((*view.shape, 1, 1)) for view in (factor, offset)]
    return [
        _binary(variance, epsilon, factor, "add"),
        _unary(factor, factor, "sqrt"),
        _binary(scale, factor, factor, "div"),
        _binary(mean, factor, offset, "mul"),
        _binary(bias, offset, offset, "sub"),
        _binary(x, columns[0], output, "mul"),
        _binary(output, columns[1], output, "add"),
    ]


FLOAT_RULES: dict[type[Op], Rule] = {
    Quantize: _quantize,
    Dequantize: _dequantize,
    ToFloat: _to_float,
    SquareRoot: _square_root,
    Quotient: _arithmetic("div"),
    LogSoftmax: _log_softmax,
    Add: _arithmetic("add"),
    Sub: _arithmetic("sub"),
    Mul: _arithmetic("mul"),
    Div: _arithmetic("div"),
    Relu: _relu,
    Clip: _clip,
    Unary: _function,
    Softmax: _softmax,
    Conv: _conv,
    MaxPool: _max_pool,
    AveragePool: _average_pool,
    SpatialMean: _spatial_mean,
    MatMul: _matmul,
    BatchNorm: _batch_norm,
}
