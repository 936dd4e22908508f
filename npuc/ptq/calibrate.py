"""Run the float network on samples and learn the ranges of the values that will be int8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from calibration import QuantTable, collect, table_from_ranges
from npuc.errors import UsageError
from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.ptq.plan import make_plan
from npuc.ptq.shared_scale import values_to_observe

DEFAULT_OBSERVER = "mse"
"""Most often the best of the four on the networks that docs/quantization.md measures, and never far from it."""

BATCH_BYTES = 64 << 20
"""Bound on the float32 values that are held at once; one call of the network is always allowed."""

NO_MODEL = "0" * 64


def calibrate_model(
    graph: Graph,
    samples: Mapping[str, Array],
    observer: str = DEFAULT_OBSERVER,
    progress: Callable[[int], None] | None = None,
    model_sha256: str = NO_MODEL,
) -> QuantTable:
    """The quantization table of a float graph, from float32 samples [n, ...] of every input by name.

    Only values that `quantize` asks for are observed. `progress` gets the number of samples done. `model_sha256` is
    recorded in the table. UsageError: no sample, or arrays that do not fit; CalibrationError: NaN in a value.
    """
    names = values_to_observe(make_plan(graph))
    evaluator = FloatEvaluator(graph, names)
    collected = collect(evaluator, batches(graph, samples, names), observer, progress)
    return table_from_ranges(collected, model_sha256)


def batches(graph: Graph, samples: Mapping[str, Array], names: tuple[str, ...]) -> Iterator[dict[str, Array]]:
    """The samples in pieces of whole calls of the network such that the named values stay within BATCH_BYTES."""
    missing = [name for name in graph.inputs if name not in samples]
    if missing:
        raise UsageError(f"no samples for input {missing[0]}", hint=f"give arrays for {', '.join(graph.inputs)}")
    call_bytes = sum(graph.values[name].n_bytes for name in (*names, *graph.inputs))
    n_calls = max(1, BATCH_BYTES // max(1, call_bytes))
    steps = {name: n_calls * graph.values[name].shape[0] for name in graph.inputs}
    longest = max(-(-len(samples[name]) // step) for name, step in steps.items())
    for i in range(longest):
        yield {name: samples[name][i * step : (i + 1) * step] for name, step in steps.items()}
