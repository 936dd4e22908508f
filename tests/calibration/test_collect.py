"""Collection of ranges from a network given as a function."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration import CalibrationError, collect

Arrays = Mapping[str, NDArray[Any]]


def evaluate(inputs: Arrays) -> Arrays:
    x = inputs["x"]
    return {"double": 2 * x, "above": x > 0, "index": x.argmax(axis=1), "alone": x[:0]}


def batches(*lengths: int) -> list[Arrays]:
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=(length, 3)).astype(np.float32)} for length in lengths]


def test_float_tensors_are_collected_over_all_batches() -> None:
    data = batches(4, 4, 2)
    collected = collect(evaluate, data)
    values = np.concatenate([2 * batch["x"] for batch in data])
    assert collected.ranges == {"double": (values.min(), values.max())}
    assert (collected.observer, collected.n_samples, collected.notes) == ("minmax", 10, ())


def test_progress_reports_samples_done() -> None:
    done: list[int] = []
    collect(evaluate, batches(4, 4, 2), progress=done.append)
    assert done == [4, 8, 10]


def test_notes_come_in_the_order_of_tensor_names() -> None:
    def spiky(inputs: Arrays) -> Arrays:
        values = np.append(inputs["x"], 1e6)
        return {"b": values, "a": values}

    notes = collect(spiky, batches(50)).notes
    assert [note[:9] for note in notes] == ["tensor a:", "tensor b:"]


def test_nan_in_a_tensor_is_refused_by_name() -> None:
    with pytest.raises(CalibrationError, match="tensor ratio: value nan at index"):
        collect(lambda inputs: {"ratio": inputs["x"] * np.nan}, batches(1))


def test_an_unknown_observer_is_refused_before_anything_runs() -> None:
    def never(inputs: Arrays) -> Arrays:
        raise AssertionError(inputs)

    with pytest.raises(CalibrationError, match="observer 'max' is unknown"):
        collect(never, batches(1), "max")


def test_no_batch_is_refused() -> None:
    with pytest.raises(CalibrationError, match="no calibration sample was given"):
        collect(evaluate, [])
