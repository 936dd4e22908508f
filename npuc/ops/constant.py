"""Nodes that make or retype constants: they leave no operator behind."""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.ops.onnx_rule import OnnxNode, Refusal, from_onnx

MAX_ELEMENTS = 1 << 28
"""Largest constant that importing a model may create; a few bytes of ONNX can ask for any size."""

# TensorProto.DataType; the float types are computed in float32 whatever their width.
ELEMENT_TYPES: dict[int, type[np.generic]] = {
    1: np.float32, 10: np.float32, 11: np.float32, 16: np.float32,
    2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64, 9: np.bool_,
    12: np.uint32, 13: np.uint64,
}  # fmt: skip


def require_size(shape: tuple[int, ...]) -> None:
    """Raise Refusal when a constant of this shape would be too large."""
    if min(shape, default=0) < 0 or prod(shape) > MAX_ELEMENTS:
        raise Refusal(f"makes a constant of shape {list(shape)}, the limit is {MAX_ELEMENTS} elements")


@from_onnx("Constant")
def import_constant(node: OnnxNode) -> str:
    """The tensor, number or list of numbers in the one attribute."""
    for name, dtype in (("value", None), ("value_float", np.float32), ("value_floats", np.float32),
                        ("value_int", np.int64), ("value_ints", np.int64)):
        if name in node.attributes:
            return node.literal(np.asarray(node.attributes[name], dtype))
    raise Refusal(f"attribute {', '.join(node.attributes) or 'value'} is not a number or a dense tensor")


@from_onnx("ConstantOfShape")
def import_constant_of_shape(node: OnnxNode) -> str:
    """One value everywhere, float 0 by default."""
    shape = tuple(int(size) for size in node.constant(0, "shape").reshape(-1))
    require_size(shape)
    value = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(-1)
    return node.literal(np.full(shape, value[0]))


@from_onnx("Shape")
def import_shape(node: OnnxNode) -> str:
    """Shapes are known, so this is a constant; start and end (opset 15) cut it as a Python slice would."""
    end = node.attributes.get("end")
    return node.literal(np.array(node.shape()[node.integer("start", 0) : end], np.int64))


@from_onnx("Size")
def import_size(node: OnnxNode) -> str:
    """Number of elements."""
    return node.literal(np.array(prod(node.shape()), np.int64))


@from_onnx("Cast")
def import_cast(node: OnnxNode) -> str:
    """Of constants to any number type; of computed values only from float to float."""
    code = node.integer("to", 0)
    if code not in ELEMENT_TYPES:
        raise Refusal(f"element type {code} of onnx.TensorProto")
    dtype = np.dtype(ELEMENT_TYPES[code])
    if node.is_constant(0):
        return node.literal(node.constant(0, "input").astype(dtype))
    have = node.builder.type_of(node.input(0)).dtype
    if have != dtype.name:
        raise Refusal(f"cast of a computed {have} to {dtype.name}", "keep the computation in float")
    return node.input(0)


@from_onnx("CastLike")
def import_cast_like(node: OnnxNode) -> str:
    """As Cast; the type is that of the second input."""
    want = node.builder.type_of(node.input(1)).dtype
    if node.is_constant(0):
        return node.literal(node.constant(0, "input").astype(want))
    have = node.builder.type_of(node.input(0)).dtype
    if have != want:
        raise Refusal(f"cast of a computed {have} to {want}", "keep the computation in float")
    return node.input(0)


@from_onnx("Range")
def import_range(node: OnnxNode) -> str:
    """start, start + delta, ... before limit."""
    start, limit, delta = (node.constant(i, role).reshape(()) for i, role in enumerate(("start", "limit", "delta")))
    if not delta:
        raise Refusal("delta is 0")
    require_size((max(0, int(np.ceil((float(limit) - float(start)) / float(delta)))),))
    return node.literal(np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype))
