"""Where a network is judged, and by what."""

import numpy as np
import pytest

from npuc.ptq.accuracy import compare, measure, measured_values
from tests.onnx_models import node
from tests.ptq.networks import float_graph, quantized, samples_for


def test_a_classifier_is_judged_before_its_softmax_and_other_outputs_as_they_are() -> None:
    nodes = [
        node("Neg", ["x"], ["n"]),
        node("Softmax", ["n"], ["s"], axis=1),
        node("Reshape", ["s", "shape"], ["y"]),
        node("Exp", ["x"], ["z"]),
    ]
    graph = float_graph(nodes, {"x": (1, 6)}, ["y", "z"], shape=np.array([1, 6, 1]))
    assert measured_values(graph) == ("n", "z")
    samples = samples_for(graph)
    accuracy = measure(graph, quantized(graph, samples), samples, np.zeros(8, np.int64))
    assert accuracy.sqnr_db > 40
    assert accuracy.by_value.keys() == {"n", "z"}
    assert accuracy.top1_float == accuracy.top1_int8


def test_metrics_are_those_of_all_values_together_and_top1_of_the_first() -> None:
    reference = {"a": np.array([[1.0, 0], [0, 1]]), "b": np.array([[10.0], [10]])}
    tested = {"a": np.array([[1.0, 0], [1, 0]]), "b": np.array([[10.0], [10]])}
    accuracy = compare(reference, tested, np.array([0, 1]))
    assert accuracy.sqnr_db == pytest.approx(10 * np.log10(202 / 2))
    assert (accuracy.agreement, accuracy.top1_float, accuracy.top1_int8) == (0.5, 1.0, 0.5)
