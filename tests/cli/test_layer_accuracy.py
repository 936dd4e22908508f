"""Accuracy by layer: what a layer adds alone, what it inherits, and what its range cuts off."""

from typing import Any

import pytest

from calibration import load_inputs, sqnr_db
from npuc.cli.layer_accuracy import MAX_SAMPLES, layer_rows
from npuc.compiler import import_model, quantized
from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.ptq.calibrate import calibrate_model
from npuc.ptq.evaluate import evaluate_quantized
from tests.cli.conftest import DIGITS

Sample = dict[str, Array]


@pytest.fixture(scope="module")
def network() -> tuple[Graph, Graph, Sample]:
    """The digit reader, float and integer, and as many images as are judged."""
    graph = import_model(DIGITS / "model.onnx", {})
    shapes = {name: graph.type_of(name).shape for name in graph.inputs}
    samples = load_inputs(f"{DIGITS / 'digits.npz'}:calib@:{MAX_SAMPLES}", shapes)
    return graph, quantized(graph, calibrate_model(graph, samples, "minmax")), samples


def rows_by_value(graph: Graph, integer: Graph, samples: Sample) -> dict[str, dict[str, Any]]:
    return {row["value"]: row for row in layer_rows(graph, integer, samples)}


def test_sqnr_is_that_of_all_samples_at_once(network: tuple[Graph, Graph, Sample]) -> None:
    graph, integer, samples = network
    rows = rows_by_value(*network)
    names = [name for name in rows if rows[name]["sqnr_db"] is not None]
    assert len(names) > 10
    want, got = FloatEvaluator(graph, names)(samples), evaluate_quantized(integer, samples, names)
    for name in names:
        assert rows[name]["sqnr_db"] == pytest.approx(sqnr_db(want[name], got[name]), abs=1e-6), name


def test_the_first_layer_inherits_nothing_and_later_ones_do(network: tuple[Graph, Graph, Sample]) -> None:
    rows = list(rows_by_value(*network).values())
    assert rows[0]["sqnr_db"] == rows[0]["alone_sqnr_db"]
    convolutions = [row for row in rows if row["name"].endswith("pointwise/bn")]
    assert all(row["alone_sqnr_db"] > row["sqnr_db"] + 3 for row in convolutions)


def test_saturation_counts_values_beyond_the_range(network: tuple[Graph, Graph, Sample]) -> None:
    graph, integer, samples = network
    inside = rows_by_value(*network)
    larger = rows_by_value(graph, integer, {name: 3 * array for name, array in samples.items()})
    first = next(iter(inside))
    assert inside[first]["saturation"] == 0
    assert larger[first]["saturation"] > 0.001
