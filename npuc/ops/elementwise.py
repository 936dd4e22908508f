"""Operators that treat every element alike: arithmetic with numpy broadcasting, clamps, unary functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.op import Op


@dataclass(frozen=True)
class Elementwise(Op):
    """Two float32 operands of shapes that broadcast as in numpy."""

    onnx: ClassVar[str] = ""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        require_float(*inputs)
        return (TensorType("float32", np.broadcast_shapes(inputs[0].shape, inputs[1].shape)),)


@dataclass(frozen=True)
class Add(Elementwise):
    """a + b."""

    onnx: ClassVar[str] = "Add"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.add(*inputs),)


@dataclass(frozen=True)
class Sub(Elementwise):
    """a - b."""

    onnx: ClassVar[str] = "Sub"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.subtract(*inputs),)


@dataclass(frozen=True)
class Mul(Elementwise):
    """a * b."""

    onnx: ClassVar[str] = "Mul"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.multiply(*inputs),)


@dataclass(frozen=True)
class Div(Elementwise):
    """a / b; of integers (constants only) the quotient rounded toward zero."""

    onnx: ClassVar[str] = "Div"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = inputs
        if not np.issubdtype(a.dtype, np.integer):
            return (np.divide(a, b),)
        if not np.all(b):
            raise ValueError("division of integers by zero")
        return ((np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(a.dtype),)


@dataclass(frozen=True)
class Relu(Op):
    """max(x, 0)."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return same_float(*inputs)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.maximum(inputs[0], 0),)


@dataclass(frozen=True)
class Clip(Op):
    """min(max(x, low), high); a bound that is absent is infinite."""

    low: float
    high: float

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return same_float(*inputs)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        return (np.minimum(np.maximum(x, self.low), self.high).astype(x.dtype),)


def require_float(*inputs: TensorType) -> None:
    """Raise ValueError unless every operand is float32."""
    for x in inputs:
        if x.dtype != "float32":
            raise ValueError(f"element type {x.dtype}, float32 is needed")


def same_float(*inputs: TensorType) -> tuple[TensorType, ...]:
    """Type of a float32 result of the operand's shape."""
    require_float(inputs[0])
    return (TensorType("float32", inputs[0].shape),)


def import_elementwise(node: OnnxNode) -> str:
    """Two operands; the element types must be equal, as ONNX requires."""
    kind = next(kind for kind in (Add, Sub, Mul, Div) if kind.onnx == node.op_type)
    return node.emit(kind(), node.input(0), node.input(1))


from_onnx("Add", "Sub", "Mul", "Div")(import_elementwise)


@from_onnx("Sum")
def import_sum(node: OnnxNode) -> str:
    """Any number of operands: a chain of additions."""
    return reduce(lambda total, x: node.emit(Add(), total, x), map(node.input, range(len(node.inputs))))


@from_onnx("Relu")
def import_relu(node: OnnxNode) -> str:
    """One operand."""
    return node.emit(Relu(), node.input(0))


@from_onnx("Clip")
def import_clip(node: OnnxNode) -> str:
    """Bounds are attributes before opset 11 and optional inputs since."""
    return node.emit(Clip(clip_bound(node, "min", 1, -np.inf), clip_bound(node, "max", 2, np.inf)), node.input(0))


def clip_bound(node: OnnxNode, name: str, index: int, default: float) -> float:
    """One bound of a Clip, infinite when absent."""
    if node.has(index):
        bound = node.constant(index, name)
        if bound.size != 1:
            raise Refusal(f"{name} has {bound.size} elements, a scalar is needed")
        return float(bound.reshape(()))
    return node.number(name, default)


@from_onnx("Identity")
def import_identity(node: OnnxNode) -> str:
    """The same value."""
    return node.input(0)


@from_onnx("Dropout")
def import_dropout(node: OnnxNode) -> tuple[str, ...]:
    """At inference the same value; the mask, where something asks for it, keeps everything."""
    if not any(node.used[1:]):
        return (node.input(0),)
    return node.input(0), node.literal(np.ones(node.shape(), bool))


def export_elementwise(op: Elementwise, export: OnnxExport) -> None:
    """One ONNX node of the same name."""
    export.node(op.onnx, export.inputs, export.outputs)


for _kind in (Add, Sub, Mul, Div):
    to_onnx(_kind)(export_elementwise)


@to_onnx(Relu)
def export_relu(op: Relu, export: OnnxExport) -> None:
    """One Relu."""
    export.node("Relu", export.inputs, export.outputs)


@to_onnx(Clip)
def export_clip(op: Clip, export: OnnxExport) -> None:
    """One Clip; infinite bounds are left out."""
    low, high = (export.constant(np.array(b, np.float32)) if np.isfinite(b) else "" for b in (op.low, op.high))
    export.node("Clip", (*export.inputs, low, high), export.outputs)
