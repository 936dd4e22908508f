"""Where accuracy is lost: every stored value of the integer graph against the float graph, by layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph, Node, evaluate
from npuc.graph.types import Array
from npuc.ptq.evaluate import dequantize_value, quantize_input

MAX_SAMPLES = 16
"""Layers are judged by the first inferences: their figures move little with more, and all values are kept."""


@dataclass
class LayerSums:
    """What is summed over the elements of one layer's value."""

    node: Node
    value: str
    signal: float = 0.0
    noise: float = 0.0
    alone_noise: float | None = 0.0
    n_clipped: int = 0
    n_elements: int = 0

    def document(self) -> dict[str, Any]:
        """The row of `accuracy --json`."""
        return {
            "name": self.node.name,
            "value": self.value,
            "sqnr_db": ratio_db(self.signal, self.noise),
            "alone_sqnr_db": None if self.alone_noise is None else ratio_db(self.signal, self.alone_noise),
            "saturation": self.n_clipped / max(self.n_elements, 1),
        }


def layer_rows(graph: Graph, quantized: Graph, samples: Mapping[str, Array]) -> list[dict[str, Any]]:
    """A row for each node of the integer graph whose value the float graph has, too, in the order of the nodes.

    graph: float; samples: float32 by input, axis 0 is samples times the model's batch.
    """
    known = [name for name in quantized.values if is_shared(graph, quantized, name)]
    layers = [LayerSums(node, name) for node in quantized.nodes for name in node.outputs if name in known]
    evaluator = FloatEvaluator(graph, known)
    for inputs in single_samples(graph, samples):
        floats = evaluator(inputs)
        stored = {name: quantize_input(quantized, name, array) for name, array in inputs.items()}
        values = evaluate(quantized, stored, [layer.value for layer in layers])
        for layer in layers:
            accumulate(layer, quantized, floats, values[layer.value])
    return [layer.document() for layer in layers]


def is_shared(graph: Graph, quantized: Graph, name: str) -> bool:
    """Whether a value is in both graphs, as floats here and quantized there."""
    kind, other = quantized.values[name], graph.values.get(name)
    return kind.quant is not None and other is not None and other.shape == kind.shape and other.dtype == "float32"


def single_samples(graph: Graph, samples: Mapping[str, Array]) -> Iterator[dict[str, Array]]:
    """The inputs of the first inferences, one by one."""
    batch = {name: graph.type_of(name).shape[0] for name in graph.inputs}
    n = min([MAX_SAMPLES, *(len(samples[name]) // batch[name] for name in graph.inputs)])
    for i in range(n):
        yield {name: samples[name][i * batch[name] : (i + 1) * batch[name]] for name in graph.inputs}


def accumulate(layer: LayerSums, quantized: Graph, floats: Mapping[str, Array], stored: Array) -> None:
    """Add one inference: the float values, and the stored integers of the layer's value."""
    want, kind = floats[layer.value].astype(np.float64), quantized.values[layer.value]
    layer.signal += float(np.square(want).sum())
    layer.noise += squared_error(want, dequantize_value(quantized, layer.value, stored))
    alone = run_alone(layer.node, layer.value, quantized, floats)
    if alone is None or layer.alone_noise is None:
        layer.alone_noise = None
    else:
        layer.alone_noise += squared_error(want, dequantize_value(quantized, layer.value, alone))
    limits = np.iinfo(kind.dtype)
    lowest, highest = (dequantize_value(quantized, layer.value, np.array(q)) for q in (limits.min, limits.max))
    step = (highest - lowest) / (limits.max - limits.min)
    layer.n_clipped += int(((want < lowest - step / 2) | (want > highest + step / 2)).sum())
    layer.n_elements += want.size


def run_alone(node: Node, value: str, quantized: Graph, floats: Mapping[str, Array]) -> Array | None:
    """The stored integers that the node alone makes of the float values before it; None where one is not known."""
    operands = []
    for name in filter(None, node.inputs):
        if name in quantized.constants:
            operands.append(quantized.constants[name])
        elif name in floats:
            operands.append(quantize_input(quantized, name, floats[name]))
        else:
            return None
    return node.op.reference(*operands)[node.outputs.index(value)]


def squared_error(want: Array, got: Array) -> float:
    """Sum of the squares of the differences, in float64."""
    return float(np.square(want - got).sum())


def ratio_db(signal: float, noise: float) -> float | None:
    """10 log10(signal / noise); None when there is no error, or no signal, to measure."""
    return 10 * math.log10(signal / noise) if signal > 0 and noise > 0 else None
