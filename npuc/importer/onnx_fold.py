"""Constant nodes for which there is no import rule, evaluated by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from npuc.graph.types import Array
from npuc.ops.onnx_rule import Refusal

# The reference takes any value of these; a fold must give the same bytes in every run.
RANDOM = {"RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}

FAILURES = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, AttributeError, AssertionError)


def fold_node(node: onnx.NodeProto, arrays: Sequence[Array | None], opset: int) -> list[Array]:
    """Outputs of a node whose inputs are all constant (None: absent); raises Refusal when they cannot be computed."""
    if node.op_type in RANDOM:
        raise Refusal("its result is random", "export the model for inference")
    from onnx.reference import ReferenceEvaluator

    names = [f"x{i}" if array is not None else "" for i, array in enumerate(arrays)]
    feeds = {name: array for name, array in zip(names, arrays, strict=True) if array is not None}
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = names
    copy.output[:] = [f"y{i}" for i in range(len(node.output))]
    try:
        inputs = [
            onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
        ]
        outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in copy.output]
        graph = onnx.helper.make_graph([copy], "fold", inputs, outputs)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, feeds)
    except FAILURES as error:
        raise Refusal("its constant operands cannot be evaluated") from error
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        raise Refusal("its result is not a tensor")
    return [np.asarray(result) for result in results]
