"""Normalization: batch normalization at inference, softmax."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.elementwise import require_float, same_float
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.op import Op
from npuc.ops.structure import Reshape


@dataclass(frozen=True)
class BatchNorm(Op):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias; x[n,c,h,w], then scale, bias, mean, variance [c]."""

    epsilon: float

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_float(*inputs)
        x, *parameters = (value.shape for value in inputs)
        if len(x) != 4 or any(shape != x[1:2] for shape in parameters):
            raise ValueError(f"batch normalization of {list(x)} with parameters {parameters}")
        return (TensorType("float32", x),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        factor, offset = batch_norm_affine(self.epsilon, *inputs[1:])
        x = inputs[0]
        return ((x * factor.reshape(-1, 1, 1) + offset.reshape(-1, 1, 1)).astype(x.dtype),)


def batch_norm_affine(epsilon: float, scale: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Factor and offset [c], in float64, such that the normalization is x * factor + offset."""
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return factor, bias - mean * factor


@dataclass(frozen=True)
class Softmax(Op):
    """exp(x - max) / sum, both over `axis` (not negative)."""

    axis: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        if not 0 <= self.axis < len(inputs[0].shape):
            raise ValueError(f"axis {self.axis} of a tensor of rank {len(inputs[0].shape)}")
        return same_float(*inputs)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        powers = np.exp(x - x.max(axis=self.axis, keepdims=True))
        return (powers / powers.sum(axis=self.axis, keepdims=True),)


@from_onnx("BatchNormalization")
def import_batch_norm(node: OnnxNode) -> str:
    """Inference form only; [n,c] and [n,c,l] are seen as [n,c,1,1] and [n,c,1,l]."""
    if node.integer("training_mode", 0) or any(node.used[1:]):
        raise Refusal("training form", "export the model for inference")
    roles = ("scale", "bias", "mean", "variance")
    parameters = [node.literal(node.constant(i, role).astype(np.float32)) for i, role in enumerate(roles, 1)]
    shape = node.shape()
    if not 2 <= len(shape) <= 4:
        raise Refusal(f"input of rank {len(shape)}, allowed are 2 to 4")
    op = BatchNorm(node.number("epsilon", 1e-5))
    if len(shape) == 4:
        return node.emit(op, node.input(0), *parameters)
    x = node.emit(Reshape((*shape[:2], 1, *(shape[2:] or (1,)))), node.input(0))
    return node.emit(Reshape(shape), node.emit(op, x, *parameters))


@from_onnx("Softmax")
def import_softmax(node: OnnxNode) -> str:
    """Before opset 13 all axes from `axis` (default 1) on are one; since then the one axis (default -1)."""
    shape = node.shape()
    x = node.input(0)
    if node.opset >= 13:
        return node.emit(Softmax(node.axis(node.integer("axis", -1), len(shape))), x)
    axis = node.integer("axis", 1)
    axis = axis if axis == len(shape) else node.axis(axis, len(shape))
    rest = [i for i in range(axis, len(shape)) if shape[i] != 1]
    if axis < len(shape) and len(rest) <= 1:
        return node.emit(Softmax(rest[0] if rest else axis), x)
    flat = node.emit(Reshape((prod(shape[:axis]), prod(shape[axis:]))), x)
    return node.emit(Reshape(shape), node.emit(Softmax(1), flat))


@to_onnx(BatchNorm)
def export_batch_norm(op: BatchNorm, export: OnnxExport) -> None:
    """One BatchNormalization."""
    export.node("BatchNormalization", export.inputs, export.outputs, epsilon=op.epsilon)


@to_onnx(Softmax)
def export_softmax(op: Softmax, export: OnnxExport) -> None:
    """One Softmax."""
    export.node("Softmax", export.inputs, export.outputs, axis=op.axis)
