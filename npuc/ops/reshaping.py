"""ONNX nodes that give the same elements another shape or axis order, all as Reshape and Transpose."""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.structure import Reshape, Transpose


@from_onnx("Reshape")
def import_reshape(node: OnnxNode) -> str:
    """0 copies a dimension (unless allowzero), -1 takes what is left."""
    old = node.shape()
    wanted = node.integers("shape", 1) or ()
    if not node.integer("allowzero", 0):
        if any(size == 0 and axis >= len(old) for axis, size in enumerate(wanted)):
            raise Refusal(f"shape {list(wanted)} copies a dimension that {list(old)} does not have")
        wanted = tuple(size or old[axis] for axis, size in enumerate(wanted))
    return node.emit(Reshape(fill_unknown(wanted, prod(old))), node.input(0))


def fill_unknown(shape: tuple[int, ...], n_elements: int) -> tuple[int, ...]:
    """Replace the one -1 so that the shape has `n_elements`; raises Refusal when that is not possible."""
    known = prod(size for size in shape if size != -1)
    if shape.count(-1) > 1 or any(size < -1 for size in shape):
        raise Refusal(f"shape {list(shape)} has more than one unknown dimension")
    if -1 in shape:
        if known == 0 or n_elements % known:
            raise Refusal(f"{n_elements} elements do not fit the shape {list(shape)}")
        return tuple(n_elements // known if size == -1 else size for size in shape)
    if known != n_elements:
        raise Refusal(f"{n_elements} elements do not fit the shape {list(shape)}")
    return shape


@from_onnx("Flatten")
def import_flatten(node: OnnxNode) -> str:
    """Axes before `axis` become rows, the others columns."""
    shape = node.shape()
    axis = node.integer("axis", 1)
    axis = axis if axis == len(shape) else node.axis(axis, len(shape))
    return node.emit(Reshape((prod(shape[:axis]), prod(shape[axis:]))), node.input(0))


@from_onnx("Squeeze")
def import_squeeze(node: OnnxNode) -> str:
    """Drop the given axes of size 1, or all of them."""
    shape = node.shape()
    given = node.integers("axes", 1)
    axes = [i for i, size in enumerate(shape) if size == 1] if given is None else [
        node.axis(a, len(shape)) for a in given
    ]
    if any(shape[axis] != 1 for axis in axes):
        raise Refusal(f"squeeze of axes {axes} of {list(shape)}, their sizes must be 1")
    return node.emit(Reshape(tuple(size for i, size in enumerate(shape) if i not in axes)), node.input(0))


@from_onnx("Unsqueeze")
def import_unsqueeze(node: OnnxNode) -> str:
    """Insert axes of size 1; positions count in the result."""
    given = node.integers("axes", 1) or ()
    rank = len(node.shape()) + len(given)
    axes = {node.axis(a, rank) for a in given}
    if len(axes) != len(given):
        raise Refusal(f"axes {list(given)} repeat an axis")
    sizes = iter(node.shape())
    return node.emit(Reshape(tuple(1 if i in axes else next(sizes) for i in range(rank))), node.input(0))


@from_onnx("Transpose")
def import_transpose(node: OnnxNode) -> str:
    """The axes are reversed when no perm is given."""
    rank = len(node.shape())
    perm = node.integers("perm")
    return node.emit(Transpose(tuple(reversed(range(rank))) if perm is None else perm), node.input(0))


@to_onnx(Reshape)
def export_reshape(op: Reshape, export: OnnxExport) -> None:
    """One Reshape."""
    shape = export.constant(np.array(op.shape, np.int64))
    export.node("Reshape", (*export.inputs, shape), export.outputs)


@to_onnx(Transpose)
def export_transpose(op: Transpose, export: OnnxExport) -> None:
    """One Transpose."""
    export.node("Transpose", export.inputs, export.outputs, perm=op.perm)
