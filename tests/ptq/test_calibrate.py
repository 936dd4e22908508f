"""Calibration observes what quantization asks for, in batches of bounded memory."""

import numpy as np
import pytest

import npuc.ptq.calibrate
from calibration import CalibrationError
from npuc.errors import UsageError
from npuc.ptq.calibrate import batches, calibrate_model
from npuc.ptq.quantize import quantize
from tests.onnx_models import node
from tests.ptq.networks import float_graph, normal

W = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
GRAPH = float_graph(
    [
        node("Conv", ["x", "w"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2]),
        node("Exp", ["m"], ["e"]),
        node("Neg", ["e"], ["n"]),
        node("Softmax", ["n"], ["y"], axis=1),
    ],
    {"x": (1, 3, 8, 8)},
    w=W,
)


def test_only_values_with_a_range_of_their_own_are_observed() -> None:
    table = calibrate_model(GRAPH, {"x": normal((1, 3, 8, 8))})
    assert sorted(table.tensors) == ["n", "r", "x"]
    assert table.n_samples == 8
    assert quantize(GRAPH, table).outputs == ("y",)


def test_the_batch_size_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, done = {"x": normal((1, 3, 8, 8))}, list[int]()
    whole = calibrate_model(GRAPH, samples)
    monkeypatch.setattr(npuc.ptq.calibrate, "BATCH_BYTES", 1)
    assert calibrate_model(GRAPH, samples, progress=done.append) == whole
    assert done == list(range(1, 9))


def test_batches_are_whole_calls_within_the_memory_bound() -> None:
    samples = {"x": np.zeros((10_000, 3, 8, 8), np.float32)}
    lengths = [len(batch["x"]) for batch in batches(GRAPH, samples, ("r",))]
    assert sum(lengths) == 10_000
    assert max(lengths) * (3 * 8 * 8 + 4 * 6 * 6) * 4 <= npuc.ptq.calibrate.BATCH_BYTES


def test_missing_inputs_and_nan_are_refused() -> None:
    with pytest.raises(UsageError, match="no samples for input x"):
        calibrate_model(GRAPH, {"z": normal((1, 3, 8, 8))})
    with pytest.raises(CalibrationError, match="tensor"):
        calibrate_model(GRAPH, {"x": np.full((1, 3, 8, 8), np.nan, np.float32)})
