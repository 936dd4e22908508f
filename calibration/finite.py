"""Refusal of values that no quantized number can stand for."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError


def require_finite(array: NDArray[Any], source: str) -> None:
    """Raise CalibrationError naming `source` and the first index (row-major) that holds NaN or an infinity."""
    _refuse(array, ~np.isfinite(array), source)


def require_no_nan(array: NDArray[Any], source: str) -> None:
    """Raise CalibrationError naming `source` and the first index (row-major) that holds NaN."""
    _refuse(array, np.isnan(array), source)


def _refuse(array: NDArray[Any], bad: NDArray[np.bool_], source: str) -> None:
    if not bad.any():
        return
    index = [int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape)]
    raise CalibrationError(
        f"{source}: value {array[tuple(index)]} at index {index}, {int(bad.sum())} such of {bad.size}, must be finite",
        hint="remove the samples that hold it, or correct what computes them",
    )
