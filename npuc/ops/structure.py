"""Operators that move elements without computing: the same for float and integer graphs.

All of them keep dtype and quantization. `Pad.value` is the stored value, so the zero point in an integer graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op


@dataclass(frozen=True)
class Reshape(Op):
    """The same elements in row-major order under another shape."""

    view: ClassVar[bool] = True
    shape: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x = replace(inputs[0], shape=self.shape, layout=None)
        if x.n_elements != inputs[0].n_elements:
            raise ValueError(f"reshape of {list(inputs[0].shape)} to {list(self.shape)} changes the element count")
        return (x,)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].reshape(self.shape),)


@dataclass(frozen=True)
class Transpose(Op):
    """Axis i of the result is axis perm[i] of the input."""

    view: ClassVar[bool] = True
    perm: tuple[int, ...]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x = inputs[0]
        if sorted(self.perm) != list(range(len(x.shape))):
            raise ValueError(f"perm {list(self.perm)} is no permutation of the {len(x.shape)} axes")
        return (replace(x, shape=tuple(x.shape[axis] for axis in self.perm), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].transpose(self.perm),)


@dataclass(frozen=True)
class Slice(Op):
    """Elements starts[i] <= index < stops[i] of each axis, every steps[i]-th; all lists have the input's rank.

    Negative steps are normalized by the importer into a reversal: start > stop, stop may be -1 (before element 0).
    """

    view: ClassVar[bool] = True
    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]

    def ranges(self) -> tuple[range, ...]:
        """Selected indices of each axis."""
        return tuple(range(*bounds) for bounds in zip(self.starts, self.stops, self.steps, strict=True))

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        ranges = self.ranges()
        if len(ranges) != len(inputs[0].shape):
            raise ValueError(f"slice has {len(ranges)} axes, its input {len(inputs[0].shape)}")
        for axis, (chosen, size) in enumerate(zip(ranges, inputs[0].shape, strict=True)):
            if not chosen or not (min(chosen) >= 0 and max(chosen) < size):
                raise ValueError(f"slice {chosen} of axis {axis} leaves 0..{size - 1} or is empty")
        return (replace(inputs[0], shape=tuple(map(len, ranges)), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        for axis, chosen in enumerate(self.ranges()):
            x = np.take(x, list(chosen), axis=axis)
        return (x,)


@dataclass(frozen=True)
class Concat(Op):
    """Inputs one after the other along `axis`."""

    axis: int

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        shape = list(inputs[0].shape)
        for other in inputs[1:]:
            rest = [size for axis, size in enumerate(other.shape) if axis != self.axis]
            if rest != [size for axis, size in enumerate(shape) if axis != self.axis]:
                raise ValueError(f"concat of {shape} and {list(other.shape)} on axis {self.axis}")
            if other.dtype != inputs[0].dtype:
                raise ValueError(f"concat of {inputs[0].dtype} and {other.dtype}")
        shape[self.axis] = sum(other.shape[self.axis] for other in inputs)
        return (replace(inputs[0], shape=tuple(shape), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=self.axis),)


@dataclass(frozen=True)
class Pad(Op):
    """Constant padding: before[i] elements before and after[i] after axis i, all of `value`; none negative."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        x = inputs[0]
        if not len(self.before) == len(self.after) == len(x.shape) or min(*self.before, *self.after) < 0:
            raise ValueError(f"pads {list(self.before)} and {list(self.after)} do not fit {list(x.shape)}")
        sizes = zip(self.before, x.shape, self.after, strict=True)
        return (replace(x, shape=tuple(map(sum, sizes)), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        widths = list(zip(self.before, self.after, strict=True))
        value = np.asarray(self.value).astype(inputs[0].dtype)
        return (np.pad(inputs[0], widths, constant_values=value),)


@dataclass(frozen=True)
class ResizeNearest(Op):
    """Each pixel repeated `factors` times: x[n,c,h,w] -> y[n,c,h*fh,w*fw]."""

    factors: tuple[int, int]

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        n, c, h, w = inputs[0].shape
        return (replace(inputs[0], shape=(n, c, h * self.factors[0], w * self.factors[1]), layout=None),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].repeat(self.factors[0], axis=2).repeat(self.factors[1], axis=3),)
