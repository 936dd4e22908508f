"""Layouts seen through view operators: the same bytes under another shape, or no answer when a copy is needed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from npuc.graph.types import ITEM_BYTES, Layout, TensorType

Shape = tuple[int, ...]
Strides = tuple[int, ...]


def dense(storage: str, type_: TensorType, order: Shape | None = None, offset_bytes: int = 0) -> Layout:
    """Dense layout whose axes are stored in `order`, outermost first (row-major when None)."""
    strides = [0] * len(type_.shape)
    step = ITEM_BYTES[type_.dtype]
    for axis in reversed(order if order is not None else tuple(range(len(type_.shape)))):
        strides[axis] = step
        step *= type_.shape[axis]
    return Layout(storage, offset_bytes, tuple(strides))


def blocked(storage: str, type_: TensorType, block: int) -> Layout:
    """5HD (NC1HWC0) layout of int8 [n,c,h,w]: blocks of `block` channels, the ragged last one not padded."""
    n, c, h, w = type_.shape
    return Layout(storage, 0, (c * h * w if n > 1 else 0, h * w * block, w * block, block), block)


def is_row_major(layout: Layout, type_: TensorType) -> bool:
    """True when the elements are dense in the order of the logical axes."""
    if layout.block:
        return False
    wanted = dense(layout.storage, type_).strides
    return all(size == 1 or a == b for size, a, b in zip(type_.shape, layout.strides, wanted, strict=True))


def reshape_layout(layout: Layout, source: TensorType, shape: Shape) -> Layout | None:
    """Layout of the same bytes under `shape`, or None when the reshape must move them."""
    if layout.block:
        return _reshape_blocked(layout, source, shape)
    strides = _reshape_strides(source.shape, layout.strides, shape)
    return _merged_channels(layout, source, shape) if strides is None else replace(layout, strides=strides)


def _merged_channels(layout: Layout, source: TensorType, shape: Shape) -> Layout | None:
    """[n,c,g,h,w] as an image of c blocks of g channels, where those are neighboring bytes."""
    old = source.shape
    if len(old) != 5 or shape != (old[0], old[1] * old[2], *old[3:]) or layout.strides[2] != 1:
        return None
    n, block, _, row, pixel = layout.strides
    return replace(layout, strides=(n, block, row, pixel), block=old[2]) if ITEM_BYTES[source.dtype] == 1 else None


def _reshape_blocked(layout: Layout, source: TensorType, shape: Shape) -> Layout | None:
    if len(source.shape) == 4 and source.shape[2:] == (1, 1):  # one pixel: the blocks are neighbours
        flat = replace(layout, strides=(source.shape[1], 1, 1, 1), block=0)
        return reshape_layout(flat, source, shape)
    n, channels, *image = source.shape
    if shape == (n, channels // layout.block, layout.block, *image) and channels % layout.block == 0:
        return replace(layout, strides=(*layout.strides[:2], 1, *layout.strides[2:]), block=0)
    return layout if shape == source.shape else None


def _reshape_strides(old_shape: Shape, old_strides: Strides, shape: Shape) -> Strides | None:
    """Match runs of old and new axes with equal element counts; a run of several old axes must be contiguous."""
    old = [(size, stride) for size, stride in zip(old_shape, old_strides, strict=True) if size != 1]
    new = [(axis, size) for axis, size in enumerate(shape) if size != 1]
    strides = [0] * len(shape)
    while old and new:
        olds, news = [old.pop(0)], [new.pop(0)]
        n_old, n_new = olds[0][0], news[0][1]
        while n_old != n_new:
            if n_old < n_new:
                olds.append(old.pop(0))
                n_old *= olds[-1][0]
            else:
                news.append(new.pop(0))
                n_new *= news[-1][1]
        if any(a[1] != b[0] * b[1] for a, b in pairwise(olds)):
            return None
        step = olds[-1][1]
        for axis, size in reversed(news):
            strides[axis] = step
            step *= size
    return tuple(strides)


def transpose_layout(layout: Layout, perm: Shape) -> Layout | None:
    """Layout after Transpose: axis i of the result is axis perm[i]."""
    if layout.block:
        return layout if perm == tuple(range(len(perm))) else None
    return replace(layout, strides=tuple(layout.strides[axis] for axis in perm))


def inverse(perm: Shape) -> Shape:
    """The permutation that undoes `perm`."""
    result = [0] * len(perm)
    for i, axis in enumerate(perm):
        result[axis] = i
    return tuple(result)


def slice_layout(layout: Layout, source: TensorType, ranges: tuple[range, ...]) -> Layout | None:
    """Layout of a slice; None for reversals and for channel cuts inside a block."""
    if any(chosen.step < 0 and len(chosen) > 1 for chosen in ranges):
        return None
    offset = layout.offset_bytes
    if layout.block:
        chosen = ranges[1]
        whole = chosen.stop == source.shape[1] or len(chosen) % layout.block == 0
        if chosen.step != 1 or chosen.start % layout.block or not whole or _spatial_cut(source, ranges):
            return None
        return replace(layout, offset_bytes=offset + chosen.start // layout.block * layout.strides[1])
    offset += sum(chosen.start * stride for chosen, stride in zip(ranges, layout.strides, strict=True))
    strides = tuple(
        stride * (chosen.step if len(chosen) > 1 else 1) for chosen, stride in zip(ranges, layout.strides, strict=True)
    )
    return replace(layout, offset_bytes=offset, strides=strides)


def _spatial_cut(source: TensorType, ranges: tuple[range, ...]) -> bool:
    return any(
        len(chosen) != size for axis, (chosen, size) in enumerate(zip(ranges, source.shape, strict=True)) if axis != 1
    )
