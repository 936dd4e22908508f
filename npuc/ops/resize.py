"""Resize by nearest neighbor. Integer factors are ResizeNearest, other factors choose rows and columns one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuc.graph.types import Array
from npuc.ops.constant import require_size
from npuc.ops.onnx_rule import OnnxExport, OnnxNode, Refusal, from_onnx, to_onnx
from npuc.ops.selection import take
from npuc.ops.structure import ResizeNearest

# Source coordinate of result index i; `scale` is result size / source size, `n` and `m` the source and result sizes.
COORDINATES: dict[str, Callable[[Array, float, int, int], Array]] = {
    "asymmetric": lambda i, scale, n, m: i / scale,
    "half_pixel": lambda i, scale, n, m: (i + 0.5) / scale - 0.5,
    "half_pixel_symmetric": lambda i, scale, n, m: n / 2 * (1 - m / (scale * n)) + (i + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda i, scale, n, m: (i + 0.5) / scale - 0.5 if m > 1 else 0 * i,
    "align_corners": lambda i, scale, n, m: i * (n - 1) / (m - 1) if m > 1 else 0 * i,
    "tf_half_pixel_for_nn": lambda i, scale, n, m: (i + 0.5) / scale,
}

NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def nearest_indices(n: int, m: int, scale: float, mode: str, rounding: str) -> list[int]:
    """Source index of each of m results, from n sources; float32 arithmetic, as the runtimes use."""
    places = COORDINATES[mode](np.arange(m, dtype=np.float32), float(np.float32(scale)), n, m)
    return [int(index) for index in np.clip(NEAREST[rounding](places), 0, n - 1)]


@from_onnx("Resize")
def import_resize(node: OnnxNode) -> str:
    """Scales or sizes are constants; opset 10 has scales only and the coordinates of Upsample."""
    if node.text("mode", "nearest") != "nearest":
        raise Refusal(f"mode {node.text('mode', 'nearest')}, allowed is nearest", "resize by nearest neighbor")
    if node.opset < 11:
        return resize(node, read_scales(node, 1), None, "asymmetric", "floor")
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if mode not in COORDINATES or rounding not in NEAREST:
        raise Refusal(f"coordinate_transformation_mode {mode} with nearest_mode {rounding}")
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Refusal(f"keep_aspect_ratio_policy {node.text('keep_aspect_ratio_policy', '')}, allowed is stretch")
    sizes = spread(node, node.integers("sizes", 3) or (), node.shape()) if node.has(3) else None
    if sizes is None:
        return resize(node, read_scales(node, 2), None, mode, rounding)
    scales = [m / n for m, n in zip(sizes, node.shape(), strict=True)]
    return resize(node, scales, [int(size) for size in sizes], mode, rounding)


@from_onnx("Upsample")
def import_upsample(node: OnnxNode) -> str:
    """The forerunner of Resize: asymmetric coordinates, rounded down."""
    if node.text("mode", "nearest") != "nearest":
        raise Refusal(f"mode {node.text('mode', 'nearest')}, allowed is nearest", "resize by nearest neighbor")
    return resize(node, read_scales(node, 1), None, "asymmetric", "floor")


def read_scales(node: OnnxNode, index: int) -> list[float]:
    """One factor for each axis, from the attribute or the input."""
    given = node.attributes.get("scales")
    values = node.constant(index, "scales").reshape(-1) if given is None else np.asarray(given, np.float32)
    return spread(node, [float(value) for value in values], [1.0] * len(node.shape()))


def spread(node: OnnxNode, given: Sequence[float], others: Sequence[float]) -> list[float]:
    """`given` belongs to the axes of the attribute `axes` (opset 18), by default all; other axes keep `others`."""
    rank = len(node.shape())
    axes = [node.axis(a, rank) for a in node.integers("axes") or range(rank)]
    if len(given) != len(axes):
        raise Refusal(f"{len(given)} scales or sizes for {len(axes)} axes")
    full = list(others)
    for axis, value in zip(axes, given, strict=True):
        full[axis] = value
    return full


def resize(node: OnnxNode, scales: list[float], sizes: list[int] | None, mode: str, rounding: str) -> str:
    """Repeat whole pixels where the factors allow it, else take rows and columns."""
    shape = node.shape()
    sizes = sizes or [int(np.floor(n * scale)) for n, scale in zip(shape, scales, strict=True)]
    require_size(tuple(sizes))
    if min(sizes) < 1:
        raise Refusal(f"resizes {list(shape)} to {sizes}, an empty tensor")
    indices = [nearest_indices(n, m, s, mode, rounding) for n, m, s in zip(shape, sizes, scales, strict=True)]
    repeats = [m // n for n, m in zip(shape, sizes, strict=True)]
    whole = all(row == [i // f for i in range(n * f)] for row, n, f in zip(indices, shape, repeats, strict=True))
    if whole and len(shape) == 4 and repeats[:2] == [1, 1]:
        return node.emit(ResizeNearest((repeats[2], repeats[3])), node.input(0))
    x = node.input(0)
    for axis, row in enumerate(indices):
        x = x if row == list(range(shape[axis])) else take(node, x, axis, row)
    return x


@to_onnx(ResizeNearest)
def export_resize(op: ResizeNearest, export: OnnxExport) -> None:
    """One Resize with asymmetric coordinates, rounded down."""
    scales = export.constant(np.array((1, 1, *op.factors), np.float32))
    export.node("Resize", (*export.inputs, "", scales), export.outputs, mode="nearest",
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")
