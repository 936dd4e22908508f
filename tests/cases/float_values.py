"""Running a small model through import, passes and export."""

from typing import Any

import numpy as np
import onnx

from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import evaluate
from npuc.graph.types import Array
from npuc.importer.onnx import import_onnx
from npuc.passes import GRAPH_PASSES, run_passes


def run(source: onnx.ModelProto, *inputs: Any) -> list[Array]:
    """Outputs of a model, which import, every pass and the export must agree on."""
    graph = import_onnx(source)
    feeds = {name: np.asarray(x, np.float32).reshape(graph.type_of(name).shape)
             for name, x in zip(graph.inputs, inputs, strict=True)}
    plain = evaluate(graph, feeds)
    passed = run_passes(graph, GRAPH_PASSES)
    exported = FloatEvaluator(passed, passed.outputs)({name: np.atleast_1d(x) for name, x in feeds.items()})
    after = evaluate(passed, feeds)
    assert passed.outputs == graph.outputs
    for name in graph.outputs:
        np.testing.assert_allclose(after[name], plain[name], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(exported[name], np.atleast_1d(plain[name]), rtol=1e-5, atol=1e-5)
    return [plain[name] for name in graph.outputs]
