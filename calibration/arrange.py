"""From the shape in which people store samples to the shape that a network takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError


def arrange(array: NDArray[Any], shape: Sequence[int | None], source: str = "array") -> NDArray[np.float32]:
    """Samples [n, ...] as float32 [n, *shape[1:]], for a network input of `shape`, whose axis 0 is its batch.

    Shapes that are equal after axis 0 are kept. Those that differ only in axes of length 1 are reshaped: [n,28,28] to
    [n,1,28,28]. Integer images [n,h,w,c] become [n,c,h,w], values unchanged. Any other case raises CalibrationError
    with `source`, both shapes and a hint, as do values that float32 cannot hold and types that are no real numbers.
    """
    target = tuple(shape[1:])
    placed = _place(array, target)
    if placed is None:
        raise CalibrationError(
            f"{source}: samples {array.dtype} {list(array.shape)} do not fit the network input {_listed(shape)}",
            hint=_shape_hint(array, target),
        )
    return _as_float32(placed, source)


def _place(array: NDArray[Any], target: tuple[int | None, ...]) -> NDArray[Any] | None:
    sample = array.shape[1:]
    if array.ndim == 0:
        return None
    if sample == target:
        return array
    if _long_axes(sample) == _long_axes(target):
        return array.reshape(len(array), *(length or 1 for length in target))
    if np.issubdtype(array.dtype, np.integer) and _is_channels_last(sample, target):
        return array.transpose(0, 3, 1, 2)
    return None


def _long_axes(shape: tuple[int | None, ...]) -> list[int | None]:
    return [length for length in shape if length != 1]


def _is_channels_last(sample: tuple[int, ...], target: tuple[int | None, ...]) -> bool:
    return len(sample) == len(target) == 3 and (sample[2], sample[0], sample[1]) == target


def _as_float32(array: NDArray[Any], source: str) -> NDArray[np.float32]:
    if array.dtype.kind not in "biuf":
        raise CalibrationError(
            f"{source}: dtype is {array.dtype}, must be boolean, integer or float", hint="store the samples as float32"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(array, np.float32)
    if array.dtype.itemsize > 4 and not np.array_equal(np.isfinite(values), np.isfinite(array)):
        raise CalibrationError(f"{source}: a value exceeds float32, must be within it", hint="scale the samples")
    return values


def _shape_hint(array: NDArray[Any], target: tuple[int | None, ...]) -> str:
    if array.shape == target:
        return "add an axis of samples in front: array[None]"
    if _is_channels_last(array.shape[1:], target):
        return "transpose float images yourself: array.transpose(0, 3, 1, 2)"
    return f"store the samples as [n, {', '.join(map(_length, target))}]"


def _listed(shape: Sequence[int | None]) -> str:
    return f"[{', '.join(map(_length, shape))}]"


def _length(length: int | None) -> str:
    return "?" if length is None else str(length)
