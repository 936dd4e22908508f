"""A graph for n samples gives what n runs give."""

from typing import Any

import numpy as np
import onnx
import pytest

from npuc.errors import UsageError
from npuc.graph.graph import evaluate
from npuc.ptq.rebatch import rebatch
from tests.onnx_models import node
from tests.ptq.networks import float_graph, normal

W = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)


def test_samples_stay_apart_and_in_order() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Transpose", ["m"], ["t"], perm=[0, 2, 3, 1]),
        node("Reshape", ["t", "shape"], ["r"]),
        node("Slice", ["r", "starts", "ends", "axes"], ["s"]),
        node("Softmax", ["s"], ["y"], axis=1),
    ]
    constants = {"shape": [1, 9, 4], "starts": [1], "ends": [7], "axes": [1]}
    arrays: dict[str, Any] = {name: np.array(value, np.int64) for name, value in constants.items()}
    graph = float_graph(nodes, {"x": (1, 3, 8, 8)}, w=W, **arrays)
    x = normal((1, 3, 8, 8), 5)
    together = evaluate(rebatch(graph, 5), {"x": x})["y"]
    apart = np.concatenate([evaluate(graph, {"x": x[i : i + 1]})["y"] for i in range(5)])
    np.testing.assert_allclose(together, apart, rtol=1e-6)


@pytest.mark.parametrize(
    "mixing",
    [
        node("Transpose", ["x"], ["y"], perm=[1, 0]),
        node("Softmax", ["x"], ["y"], axis=0),
        node("Concat", ["x", "x"], ["y"], axis=0),
        node("Add", ["x", "k"], ["y"]),
    ],
    ids=lambda mixing: mixing.op_type,
)
def test_what_mixes_samples_is_refused(mixing: onnx.NodeProto) -> None:
    graph = float_graph([mixing], {"x": (2, 4)}, k=np.ones((2, 4), np.float32))
    with pytest.raises(UsageError, match=r"axis 0"):
        rebatch(graph, 3)
