"""The value at which a network is measured: the input of a final Softmax, else the output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array


def softmax_input(graph: Graph) -> str | None:
    """Input of the Softmax that makes the first output, float or quantized; None when there is none."""
    from npuc.ops.integer.softmax import QSoftmax
    from npuc.ops.normalize import Softmax

    node = graph.producers.get(behind_reshapes(graph, graph.outputs[0]))
    if node is None or not isinstance(node.op, Softmax | QSoftmax):
        return None
    return behind_reshapes(graph, node.inputs[0])


def behind_reshapes(graph: Graph, value: str) -> str:
    """The value of which `value` is a reshape, itself if it is none."""
    from npuc.ops.structure import Reshape

    while (node := graph.producers.get(value)) is not None and isinstance(node.op, Reshape):
        value = node.inputs[0]
    return value


def integer_values(graph: Graph, value: str, samples: Iterable[Mapping[str, Array]]) -> Array:
    """A quantized value of the integer graph as float [samples, elements]."""
    import numpy as np

    from isa.arithmetic import dequantize
    from npuc.graph.graph import evaluate

    quant = graph.type_of(value).quant
    if quant is None:
        raise ValueError(f"{value} is not quantized")
    rows = [evaluate(graph, sample, [value])[value].reshape(-1) for sample in samples]
    values: Array = dequantize(np.stack(rows), quant.scale, quant.zero_point)
    return values
