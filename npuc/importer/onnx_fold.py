"""Constant nodes for which there is no import rule, evaluated by ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from npuc.graph.types import Array
from npuc.ops.constant import require_size
from npuc.ops.onnx_rule import Refusal

# Deterministic operators whose results are at most as large as their operands broadcast together.
FOLDABLE = frozenset({
    "Acos", "Acosh", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd",
    "BitwiseNot", "BitwiseOr", "BitwiseXor", "Celu", "Compress", "Cosh", "CumSum", "DepthToSpace",
    "DequantizeLinear", "Det", "Equal", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Hardmax",
    "IsInf", "IsNaN", "LayerNormalization", "Less", "LessOrEqual", "LogSoftmax", "Max", "Mean", "Min", "Mod",
    "NonZero", "Not", "Or", "PRelu", "QuantizeLinear", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
    "ReverseSequence", "ScatterElements", "ScatterND", "Selu", "Shrink", "Sinh", "SpaceToDepth", "Tan",
    "ThresholdedRelu", "TopK", "Trilu", "Unique", "Where", "Xor",
})  # fmt: skip

FAILURES = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError, AttributeError, AssertionError,
            MemoryError)


def fold_node(node: onnx.NodeProto, arrays: Sequence[Array | None], opset: int) -> list[Array]:
    """Outputs of a node whose inputs are all constant (None: absent); raises Refusal when they cannot be computed."""
    limit_broadcast([array.shape for array in arrays if array is not None])
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


def limit_broadcast(shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise Refusal when operands that are small each would be huge together."""
    try:
        together = np.broadcast_shapes(*shapes)
    except ValueError:
        return
    require_size(together)
