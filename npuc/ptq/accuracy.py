"""How close a quantized network is to the float one, on the host's side of the boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import agreement, cosine, sqnr_db, top1
from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.ops.normalize import Softmax
from npuc.ops.structure import Reshape
from npuc.ptq.evaluate import evaluate_quantized

Labels = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Accuracy:
    """SQNR and cosine over all samples and measured values; fractions of samples for the rest, 0 to 1.

    agreement: float and int8 have their largest element at one index. top1_*: it is at the label; None without labels.
    `by_value` has the SQNR in dB of each measured value alone.
    """

    sqnr_db: float
    cosine: float
    agreement: float
    top1_float: float | None
    top1_int8: float | None
    by_value: Mapping[str, float]


def measure(graph: Graph, quantized: Graph, samples: Mapping[str, Array], labels: Labels | None = None) -> Accuracy:
    """Judge the integer graph by the float graph that it was made from, on float32 samples of every input."""
    names = measured_values(graph)
    return compare(FloatEvaluator(graph, names)(samples), evaluate_quantized(quantized, samples, names), labels)


def measured_values(graph: Graph) -> tuple[str, ...]:
    """The value of the float graph at which each output is judged: the input of a final Softmax, else the output."""
    return tuple(dict.fromkeys(_before_softmax(graph, name) for name in graph.outputs))


def _before_softmax(graph: Graph, output: str) -> str:
    node = graph.producers.get(output)
    while node is not None and isinstance(node.op, Reshape):
        node = graph.producers.get(node.inputs[0])
    return node.inputs[0] if node is not None and isinstance(node.op, Softmax) else output


def compare(reference: Mapping[str, Array], tested: Mapping[str, Array], labels: Labels | None = None) -> Accuracy:
    """Judge float32 values `tested` by `reference`, both by name of the measured value, samples on axis 0.

    Top-1 and agreement are those of the first value. CalibrationError: shapes that differ, NaN, labels that do not fit.
    """
    first = next(iter(reference))
    ref, test = (np.concatenate([values[name].reshape(-1) for name in reference]) for values in (reference, tested))
    return Accuracy(
        sqnr_db(ref, test),
        cosine(ref, test),
        agreement(*(_rows(values[first]) for values in (reference, tested))),
        None if labels is None else top1(_rows(reference[first]), labels),
        None if labels is None else top1(_rows(tested[first]), labels),
        {name: sqnr_db(reference[name], tested[name]) for name in reference},
    )


def _rows(array: Array) -> Array:
    return array.reshape(len(array), -1)
