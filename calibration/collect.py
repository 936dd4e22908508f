"""Ranges of a network's tensors over calibration samples."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.observers import Observer, find_search
from calibration.ranges import Range

Arrays = Mapping[str, NDArray[Any]]
Evaluate = Callable[[Arrays], Arrays]
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Collected:
    """Range of each float tensor by name, and how it was found; notes are one line each, in order of tensor name."""

    ranges: Mapping[str, Range]
    observer: str
    n_samples: int
    notes: tuple[str, ...]


def collect(
    evaluate: Evaluate, batches: Iterable[Arrays], observer: str = "minmax", progress: Progress | None = None
) -> Collected:
    """Evaluate the batches and observe every float tensor that `evaluate` returns; others are skipped.

    A batch maps input names to arrays whose axis 0 is samples. `observer` is a name in OBSERVERS or `percentile:P`.
    `progress` is called after each batch with the number of samples done. CalibrationError: no batch, an unknown
    observer, a tensor with NaN, a tensor without any finite value.
    """
    search = find_search(observer)
    observers: dict[str, Observer] = {}
    n_samples = 0
    for batch in batches:
        for name, array in _float_tensors(evaluate(batch)).items():
            observers.setdefault(name, Observer(name, search)).observe(array)
        n_samples += _batch_length(batch)
        if progress is not None:
            progress(n_samples)
    if n_samples == 0:
        raise CalibrationError("no calibration sample was given, at least 1 is needed", hint="check the selected slice")
    ranges = {name: observers[name].range() for name in sorted(observers)}
    notes = tuple(note for name in ranges for note in observers[name].notes())
    return Collected(ranges, observer, n_samples, notes)


def _float_tensors(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if np.issubdtype(array.dtype, np.floating) and array.size}


def _batch_length(batch: Arrays) -> int:
    return max((len(array) for array in batch.values()), default=0)
