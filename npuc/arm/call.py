"""Calls of kernels, and operands as the four axes that their records have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from npuc.arm.kernel_spec import KERNEL, TENSOR_AXES, Value, encode_parameters
from npuc.arm.memory import MemoryMap, View
from npuc.ops.window import Window


@dataclass(frozen=True)
class KernelCall:
    """A record of the Arm section: which kernel, and its parameter record."""

    kernel: str
    parameters: bytes

    @property
    def kernel_id(self) -> int:
        """The kernel's number."""
        return KERNEL[self.kernel].kernel_id

    @property
    def version(self) -> int:
        """Version of the kernel that the parameters are for."""
        return KERNEL[self.kernel].version


Rule = Callable[[Any, MemoryMap, Sequence[View], View], list[KernelCall]]
"""(operator, memory for constants and scratch, inputs, output) -> calls; the operator has the type of its entry.

With the same views apart from their offsets a rule gives the same calls, constants and scratch.
"""


def call(kernel: str, **values: Value) -> KernelCall:
    """A call with these fields of its record."""
    return KernelCall(kernel, encode_parameters(KERNEL[kernel], values))


def aligned(*views: View) -> list[Value]:
    """The records `tensor` of views that are visited together, element by element: inputs, then the output.

    Inputs broadcast to the output's shape. Axes are in the order of the output's memory and merged where all views
    allow it, so that the last one is long. ValueError: more than four remain.
    """
    return [(view.block, view.shape, view.strides) for view in merged_views(views, TENSOR_AXES)]


def merged_views(views: Sequence[View], n_axes: int) -> list[View]:
    """The same elements, inputs broadcast, with `n_axes` axes: see `aligned`. ValueError: more remain."""
    shape = views[-1].shape
    strides = [view.broadcast(shape).strides for view in views]
    order = sorted(range(len(shape)), key=lambda axis: -abs(strides[-1][axis]))
    sizes, merged = merge_axes(
        tuple(shape[axis] for axis in order), [tuple(row[axis] for axis in order) for row in strides], n_axes
    )
    return [replace(view, shape=sizes, strides=row) for view, row in zip(views, merged, strict=True)]


def pieces(views: Sequence[View]) -> Iterator[list[View]]:
    """Views that are visited together, cut along their shortest axes until kernels can express each piece."""
    merged = merged_views(views, max(len(views[-1].shape), TENSOR_AXES))
    sizes = merged[-1].shape
    if sum(size > 1 for size in sizes) <= TENSOR_AXES:
        yield list(views)
        return
    shortest = min((axis for axis, size in enumerate(sizes) if size > 1), key=lambda axis: sizes[axis])
    for i in range(sizes[shortest]):
        place = [view.take(range(i, i + 1) if a == shortest else range(n) for a, n in enumerate(sizes))
                 for view in merged]  # fmt: skip
        yield from pieces([view.without(shortest) for view in place])


def window_record(window: Window) -> Value:
    """The record `window`."""
    return (window.kernel, window.stride, window.dilation, window.pads[:2])


def merge_axes(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], n_axes: int
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """`shape` and each of the `strides` with exactly `n_axes` axes, neighbors merged wherever all strides allow it.

    ValueError: more axes remain.
    """
    merged: list[list[int]] = []  # innermost first: size, then one stride for each operand
    for size, *steps in reversed(list(zip(shape, *strides, strict=True))):
        if size == 1:
            continue
        if merged and all(step == inner * merged[-1][0] for step, inner in zip(steps, merged[-1][1:], strict=True)):
            merged[-1][0] *= size
        else:
            merged.append([size, *steps])
    if len(merged) > n_axes:
        raise ValueError(f"{len(merged)} axes that cannot be merged, limit {n_axes}")
    merged += [[1, *(0 for _ in strides)]] * (n_axes - len(merged))
    sizes, *columns = zip(*reversed(merged), strict=True)
    return sizes, columns
