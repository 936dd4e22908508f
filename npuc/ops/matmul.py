"""Matrix products. A product with a constant matrix is a dense layer, which is a 1x1 convolution."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Mul, require_float
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window

N_SUMS = 4
"""Partial sums of a product of float matrices."""


@dataclass(frozen=True)
class MatMul(Op):
    """a[...,m,k] times b[...,k,n] -> [...,m,n]; leading axes broadcast as in numpy.

    Each product is rounded and goes to one of four sums in turn, each from the first element on, what is left of k / 4
    to the first; the result is (sum0 + sum1) + (sum2 + sum3). So the bits do not depend on who computes them.
    """

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_float(*inputs)
        a, b = (value.shape for value in inputs)
        if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
            raise ValueError(f"matrix product of {list(a)} and {list(b)}")
        return (TensorType("float32", (*np.broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = inputs
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        sums = np.zeros((N_SUMS, *shape), np.result_type(a, b))
        whole = a.shape[-1] // N_SUMS * N_SUMS
        for k in range(a.shape[-1]):
            sums[k % N_SUMS if k < whole else 0] += a[..., :, k, None] * b[..., k, None, :]
        return ((sums[0] + sums[1]) + (sums[2] + sums[3]),)


def dense(node: OnnxNode, x: str, matrix: Array, bias: Array) -> str:
    """x[...,k] times matrix[k,m] plus bias[m], as a 1x1 convolution over the other axes of x."""
    shape = node.shape_of(x)
    k, m = matrix.shape
    if shape[-1] != k:
        raise Refusal(f"matrix product of {list(shape)} and {list(matrix.shape)}")
    weight = node.literal(np.ascontiguousarray(matrix.T, dtype=np.float32).reshape(m, k, 1, 1))
    bias_name = node.literal(bias.astype(np.float32))
    op = Conv(Window((1, 1)))
    if len(shape) <= 2:
        n = prod(shape[:-1])
        y = node.emit(op, node.emit(Reshape((n, k, 1, 1)), x), weight, bias_name)
        return node.emit(Reshape((*shape[:-1], m)), y)
    n, rows = prod(shape[:-2]), shape[-2]
    columns = node.emit(Transpose((0, 2, 1)), x if len(shape) == 3 else node.emit(Reshape((n, rows, k)), x))
    y = node.emit(op, node.emit(Reshape((n, k, 1, rows)), columns), weight, bias_name)
    y = node.emit(Transpose((0, 2, 1)), node.emit(Reshape((n, m, rows)), y))
    return y if len(shape) == 3 else node.emit(Reshape((*shape[:-1], m)), y)


@from_onnx("MatMul")
def import_matmul(node: OnnxNode) -> str:
    """A constant right side makes a dense layer, anything else a product of two activations."""
    if not node.is_constant(1) or node.is_constant(0):
        return general_matmul(node)
    matrix = node.constant(1, "matrix")
    if matrix.ndim > 2 and prod(matrix.shape[:-2]) == 1 and matrix.ndim <= len(node.shape()):
        matrix = matrix.reshape(matrix.shape[-2:])
    if matrix.ndim == 1:
        y = dense(node, node.input(0), matrix[:, None], np.zeros(1))
        return node.emit(Reshape(node.shape()[:-1]), y)
    if matrix.ndim > 2:
        return general_matmul(node)
    return dense(node, node.input(0), matrix, np.zeros(matrix.shape[1]))


def general_matmul(node: OnnxNode) -> str:
    """A product of matrices; a vector on either side is a matrix of one row or column."""
    a, b = node.input(0), node.input(1)
    left, right = node.shape(0), node.shape(1)
    if min(len(left), len(right)) > 1:
        return node.emit(MatMul(), a, b)
    a = node.emit(Reshape((1, *left)), a) if len(left) == 1 else a
    b = node.emit(Reshape((*right, 1)), b) if len(right) == 1 else b
    y = node.emit(MatMul(), a, b)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    rows, columns = left[:-1] if len(left) > 1 else (), right[-1:] if len(right) > 1 else ()
    return node.emit(Reshape((*batch, *rows[-1:], *columns)), y)


@from_onnx("Gemm")
def import_gemm(node: OnnxNode) -> str:
    """alpha * A' * B' + beta * C; a constant B makes a dense layer, and a constant C per column its bias."""
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    a = node.emit(Transpose((1, 0)), node.input(0)) if node.integer("transA", 0) else node.input(0)
    if not node.is_constant(1):
        b = node.emit(Transpose((1, 0)), node.input(1)) if node.integer("transB", 0) else node.input(1)
        return add_rest(node, scaled(node, node.emit(MatMul(), a, b), alpha), beta)
    matrix = node.constant(1, "B")
    if matrix.ndim != 2:
        raise Refusal(f"B has rank {matrix.ndim}, allowed is 2")
    matrix = (matrix.T if node.integer("transB", 0) else matrix) * np.float32(alpha)
    bias = column_bias(node, matrix.shape[1])
    if bias is not None:
        return dense(node, a, matrix, bias * np.float32(beta))
    return add_rest(node, dense(node, a, matrix, np.zeros(matrix.shape[1])), beta)


def column_bias(node: OnnxNode, m: int) -> Array | None:
    """C as one value per column, zeros when absent; None when it is computed or differs from row to row."""
    if not node.has(2):
        return np.zeros(m, np.float32)
    if not node.is_constant(2):
        return None
    c = node.constant(2, "C")
    if c.ndim > 1 and prod(c.shape[:-1]) != 1:
        return None
    return np.broadcast_to(c.reshape(c.shape[-1:]), (m,))


def add_rest(node: OnnxNode, product: str, beta: float) -> str:
    """product + beta * C."""
    return node.emit(Add(), product, scaled(node, node.input(2), beta)) if node.has(2) else product


def scaled(node: OnnxNode, x: str, factor: float) -> str:
    """factor * x, which is x itself for 1."""
    return x if factor == 1.0 else node.emit(Mul(), x, node.literal(np.array(factor, np.float32)))


@to_onnx(MatMul)
def export_matmul(_op: MatMul, export: OnnxExport) -> None:
    """One MatMul."""
    export.node("MatMul", export.inputs, export.outputs)
