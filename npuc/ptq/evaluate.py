"""Evaluate an integer graph on float samples: what the host does at the boundary, and numpy in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from isa import arithmetic
from npuc.errors import QuantizationError, UsageError
from npuc.graph.graph import Graph, evaluate
from npuc.graph.types import Array, QuantParams
from npuc.ptq.rebatch import rebatch

BATCH_BYTES = 16 << 20
"""Bound on the values of all tensors of a batch, one byte each; the reference needs a multiple of it."""


def evaluate_quantized(graph: Graph, samples: Mapping[str, Array], values: Iterable[str] = ()) -> dict[str, Array]:
    """The named values (default: the outputs) as float32 [n, ...], for float32 samples [n, ...] of every input.

    Samples are quantized as on the host, half to even; results are those of the operators' references, dequantized.
    """
    names = tuple(values) or graph.outputs
    n = len(next(iter(samples.values())))
    size = max(1, BATCH_BYTES // max(1, sum(value.n_elements for value in graph.values.values())))
    pieces: dict[str, list[Array]] = {name: [] for name in names}
    for start in range(0, n, size):
        batch = {name: quantize_input(graph, name, array[start : start + size]) for name, array in samples.items()}
        for name, array in _evaluate_batch(graph, batch, names).items():
            pieces[name].append(dequantize_value(graph, name, array))
    return {name: np.concatenate(arrays) for name, arrays in pieces.items()}


def quantize_input(graph: Graph, name: str, array: Array) -> Array:
    """Float samples of one input as its stored type."""
    quant = _quant(graph, name)
    return arithmetic.quantize(array, quant.scale, quant.zero_point, graph.values[name].dtype, half_even=True)


def dequantize_value(graph: Graph, name: str, array: Array) -> Array:
    """A stored value as float32."""
    if graph.values[name].dtype == "float32":
        return array
    quant = _quant(graph, name)
    return arithmetic.dequantize(array, quant.scale, quant.zero_point)


def _quant(graph: Graph, name: str) -> QuantParams:
    quant = graph.values[name].quant
    if quant is None:
        raise QuantizationError(f"value {name} has no scale", stage="evaluate", hint="quantize the graph first")
    return quant


def _evaluate_batch(graph: Graph, batch: Mapping[str, Array], names: tuple[str, ...]) -> dict[str, Array]:
    n = len(next(iter(batch.values())))
    try:
        larger = rebatch(graph, n)
    except UsageError:
        singles = [evaluate(graph, {name: array[i : i + 1] for name, array in batch.items()}, names) for i in range(n)]
        return {name: np.concatenate([single[name] for single in singles]) for name in names}
    results = evaluate(larger, batch, names)
    return {name: results[name] for name in names}
