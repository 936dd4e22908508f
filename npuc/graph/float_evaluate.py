"""Values of a float graph through onnxruntime: fast, and with one thread, so that results do not depend on cores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from npuc.errors import UsageError
from npuc.graph.graph import Graph
from npuc.graph.onnx_export import export_onnx
from npuc.graph.types import Array


class FloatEvaluator:
    """Evaluates a graph on any number of samples; all computed values by default, or those named in `keep`.

    Calling it with {input: array [samples * batch, ...]} gives {value: array}, the results of all samples one after
    the other along axis 0 (scalars: one element for each call of the model).
    """

    def __init__(self, graph: Graph, keep: Iterable[str] | None = None) -> None:
        computed = [name for node in graph.nodes for name in node.outputs]
        self.graph = graph
        self.names = list(dict.fromkeys(computed if keep is None else keep))
        self._given = [name for name in self.names if name in graph.inputs or name in graph.constants]
        self._fetched = [name for name in self.names if name not in self._given]
        self._session = open_session(graph, self._fetched) if self._fetched else None

    def __call__(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Values for all samples."""
        n_calls = self._count_calls(inputs)
        calls: dict[str, list[Array]] = {name: [] for name in self.names}
        for call in range(n_calls):
            feeds = {name: self._part(name, inputs[name], call) for name in self.graph.inputs}
            fetched = self._session.run(self._fetched, feeds) if self._session is not None else []
            known = {**self.graph.constants, **feeds, **dict(zip(self._fetched, fetched, strict=True))}
            for name in self.names:
                calls[name].append(np.atleast_1d(known[name]))
        return {name: np.concatenate(parts) for name, parts in calls.items()}

    def _part(self, name: str, array: Array, call: int) -> Array:
        kind = self.graph.type_of(name)
        if not kind.shape:
            return np.array(np.asarray(array).reshape(-1)[call], kind.dtype)
        batch = kind.shape[0]
        return np.ascontiguousarray(array[call * batch : (call + 1) * batch], dtype=kind.dtype)

    def _count_calls(self, inputs: Mapping[str, Array]) -> int:
        counts = {}
        for name in self.graph.inputs:
            kind = self.graph.type_of(name)
            if name not in inputs:
                raise UsageError(f"no data for input {name}", hint=f"give arrays for {', '.join(self.graph.inputs)}")
            shape = np.shape(inputs[name])
            batch = kind.shape[0] if kind.shape else 1
            if shape[1:] != kind.shape[1:] or not shape or not shape[0] or shape[0] % batch:
                raise UsageError(f"input {name} is {list(kind.shape)}, got an array of {list(shape)}",
                                 hint="stack the samples on axis 0")
            counts[name] = shape[0] // batch
        if len(set(counts.values())) > 1:
            raise UsageError(f"inputs have different numbers of samples: {counts}")
        return next(iter(counts.values()), 1)


def open_session(graph: Graph, outputs: list[str]) -> Any:
    """An onnxruntime session that gives `outputs`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Layout changes would be undone at every value that is fetched, and differ between processors.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    model = export_onnx(graph, outputs)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
