"""ONNX nodes that choose, join and repeat elements, as Slice, Concat and Pad."""

from __future__ import annotations

from itertools import accumulate, pairwise
from math import prod

import numpy as np

from npuc.ops.constant import require_size
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.structure import Concat, Pad, Reshape, Slice

MAX_PIECES = 4096
"""Most slices that one gathering node may become."""


def slice_axis(node: OnnxNode, x: str, axis: int, chosen: range) -> str:
    """Elements `chosen` of one axis."""
    shape = node.shape_of(x)
    if chosen == range(shape[axis]):
        return x
    starts, stops, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], stops[axis], steps[axis] = chosen.start, chosen.stop, chosen.step
    return node.emit(Slice(tuple(starts), tuple(stops), tuple(steps)), x)


def take(node: OnnxNode, x: str, axis: int, indices: list[int]) -> str:
    """Elements of one axis in any order: one slice for each arithmetic run, then a concatenation."""
    pieces = [slice_axis(node, x, axis, run) for run in arithmetic_runs(indices)]
    return pieces[0] if len(pieces) == 1 else node.builder.emit(Concat(axis), tuple(pieces))[0]


def arithmetic_runs(indices: list[int]) -> list[range]:
    """Cut a list of indices into the longest ranges that start where the one before ended."""
    runs: list[range] = []
    start = 0
    while start < len(indices):
        step = indices[start + 1] - indices[start] if start + 1 < len(indices) else 1
        end = start + 1
        while step and end < len(indices) and indices[end] - indices[end - 1] == step:
            end += 1
        step = step if end - start > 1 else 1
        runs.append(range(indices[start], indices[end - 1] + (1 if step > 0 else -1), step))
        start = end
    if len(runs) > MAX_PIECES or not runs:
        raise Refusal(f"{len(indices)} indices make {len(runs)} slices, allowed are 1 to {MAX_PIECES}")
    return runs


@from_onnx("Slice")
def import_slice(node: OnnxNode) -> str:
    """Attributes before opset 10, inputs since; out-of-range ends are clamped as Python does."""
    shape = node.shape()
    starts, ends = node.integers("starts", 1) or (), node.integers("ends", 2) or ()
    axes = node.integers("axes", 3) or tuple(range(len(starts)))
    steps = node.integers("steps", 4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Refusal(f"starts {list(starts)}, ends {list(ends)}, axes {list(axes)}, steps {list(steps)} do not fit")
    chosen = [range(size) for size in shape]
    for start, end, given, step in zip(starts, ends, axes, steps, strict=True):
        axis = node.axis(given, len(shape))
        chosen[axis] = range(*slice(start, end, step).indices(shape[axis]))
    if prod(map(len, chosen)) == 0 and not node.is_constant(0):
        raise Refusal(f"selects {list(map(len, chosen))}, an empty tensor")
    bounds = zip(*((r.start, r.stop, r.step) for r in chosen), strict=True)
    return node.emit(Slice(*bounds), node.input(0)) if chosen else node.input(0)


@from_onnx("Split")
def import_split(node: OnnxNode) -> tuple[str, ...]:
    """One slice for each output; without sizes the parts are equal, and the last may be smaller (opset 18)."""
    shape = node.shape()
    axis = node.axis(node.integer("axis", 0), len(shape))
    sizes = node.integers("split", 1)
    n_outputs = len(node.used)
    if sizes is None:
        part = -(-shape[axis] // n_outputs)
        sizes = (*(part,) * (n_outputs - 1), shape[axis] - part * (n_outputs - 1))
    if sum(sizes) != shape[axis] or len(sizes) != n_outputs or min(sizes) < 1:
        raise Refusal(f"split of {shape[axis]} into {list(sizes)} for {n_outputs} outputs")
    bounds = pairwise(accumulate(sizes, initial=0))
    return tuple(slice_axis(node, node.input(0), axis, range(start, stop)) for start, stop in bounds)


@from_onnx("Concat")
def import_concat(node: OnnxNode) -> str:
    """All inputs along one axis."""
    values = tuple(map(node.input, range(len(node.inputs))))
    axis = node.axis(node.integer("axis", 1), len(node.shape()))
    return values[0] if len(values) == 1 else node.builder.emit(Concat(axis), values)[0]


@from_onnx("Gather")
def import_gather(node: OnnxNode) -> str:
    """Constant indices; the axis is replaced by the axes of the indices."""
    shape = node.shape()
    axis = node.axis(node.integer("axis", 0), len(shape))
    indices = node.constant(1, "indices")
    outside = [int(i) for i in indices.reshape(-1) if not -shape[axis] <= i < shape[axis]]
    if outside:
        raise Refusal(f"index {outside[0]} on axis {axis}, allowed are {-shape[axis]} to {shape[axis] - 1}")
    if node.is_constant(0):
        return node.literal(np.take(node.constant(0, "data"), indices.astype(np.int64), axis=axis))
    y = take(node, node.input(0), axis, [int(i) % shape[axis] for i in indices.reshape(-1)])
    return node.emit(Reshape((*shape[:axis], *indices.shape, *shape[axis + 1 :])), y)


@from_onnx("Pad")
def import_pad(node: OnnxNode) -> str:
    """Constant padding, or (reflect, edge, wrap) elements taken from the input; negative pads cut."""
    rank = len(node.shape())
    pads = node.integers("pads", 1) or node.integers("paddings") or ()
    axes = node.integers("axes", 3) or tuple(range(rank))
    if len(pads) != 2 * len(axes):
        raise Refusal(f"{len(pads)} pads for {len(axes)} axes")
    before, after = [0] * rank, [0] * rank
    for i, given in enumerate(axes):
        before[node.axis(given, rank)], after[node.axis(given, rank)] = pads[i], pads[len(axes) + i]
    mode = node.text("mode", "constant")
    if mode != "constant":
        return pad_from_input(node, mode, before, after)
    x = node.input(0)
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = node.shape()[axis]
        if max(0, -low) >= size - max(0, -high):
            raise Refusal(f"pads {low} and {high} leave nothing of axis {axis} of {size}")
        x = slice_axis(node, x, axis, range(max(0, -low), size - max(0, -high)))
    value = float(node.constant(2, "value").reshape(())) if node.has(2) else node.number("value", 0.0)
    grow = Pad(tuple(max(0, low) for low in before), tuple(max(0, high) for high in after), value)
    sizes = zip(grow.before, node.shape_of(x), grow.after, strict=True)
    require_size(tuple(map(sum, sizes)))
    return node.emit(grow, x) if any(grow.before + grow.after) else x


def pad_from_input(node: OnnxNode, mode: str, before: list[int], after: list[int]) -> str:
    """Padding with elements of the input, axis by axis."""
    x = node.input(0)
    for axis, pads in enumerate(zip(before, after, strict=True)):
        if any(pads):
            require_size((node.shape()[axis] + sum(pads),))
            indices = np.arange(node.shape()[axis])
            if mode not in ("reflect", "edge", "wrap") or min(pads) < 0:
                raise Refusal(f"mode {mode} with pads {list(pads)}")
            padded = np.pad(indices, pads, mode=mode)  # type: ignore[call-overload]
            x = take(node, x, axis, padded.tolist())
    return x


@from_onnx("Tile")
def import_tile(node: OnnxNode) -> str:
    """Repeat along each axis."""
    repeats = node.integers("repeats", 1) or ()
    shape = node.shape()
    if len(repeats) != len(shape) or min(repeats, default=1) < 1:
        raise Refusal(f"repeats {list(repeats)} for {list(shape)}")
    require_size(tuple(size * repeat for size, repeat in zip(shape, repeats, strict=True)))
    if node.is_constant(0):
        return node.literal(np.tile(node.constant(0, "input"), repeats))
    x = node.input(0)
    for axis, repeat in enumerate(repeats):
        x = x if repeat == 1 else node.builder.emit(Concat(axis), (x,) * repeat)[0]
    return x


@from_onnx("Expand")
def import_expand(node: OnnxNode) -> str:
    """Broadcast to a constant shape; of a computed value only where nothing is repeated."""
    wanted = tuple(int(size) for size in node.constant(1, "shape").reshape(-1))
    shape = np.broadcast_shapes(node.shape(), wanted)
    require_size(shape)
    if node.is_constant(0):
        return node.literal(np.broadcast_to(node.constant(0, "data"), shape))
    if int(np.prod(shape)) != int(np.prod(node.shape())):
        raise Refusal(f"expands a computed {list(node.shape())} to {list(shape)}", "broadcast in the operator instead")
    return node.emit(Reshape(shape), node.input(0))


@to_onnx(Slice)
def export_slice(op: Slice, export: OnnxExport) -> None:
    """One Slice; an end before element 0 is written as far below zero as the axis is long."""
    sizes = export.shape(0)
    ends = [stop - size - 1 if stop < 0 else stop for stop, size in zip(op.stops, sizes, strict=True)]
    rows = (op.starts, ends, range(len(sizes)), op.steps)
    parameters = (export.constant(np.array(row, np.int64)) for row in rows)
    export.node("Slice", (*export.inputs, *parameters), export.outputs)


@to_onnx(Concat)
def export_concat(op: Concat, export: OnnxExport) -> None:
    """One Concat."""
    export.node("Concat", export.inputs, export.outputs, axis=op.axis)


@to_onnx(Pad)
def export_pad(op: Pad, export: OnnxExport) -> None:
    """One Pad of constant mode."""
    pads = export.constant(np.array((*op.before, *op.after), np.int64))
    export.node("Pad", (*export.inputs, pads, export.constant(np.array(op.value, np.float32))), export.outputs)
