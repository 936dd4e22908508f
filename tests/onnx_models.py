"""Small ONNX models for tests, and onnxruntime as the float oracle."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from npuc.graph.types import Array


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attributes: Any
         ) -> onnx.NodeProto:
    """One node."""
    return helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes)


def model(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Sequence[int | str | None] | None],
          outputs: Sequence[str], constants: Mapping[str, Array | Sequence[Any]] | None = None, opset: int = 13
          ) -> onnx.ModelProto:
    """A float model; lists of constants are int64 when they hold integers only, else float32."""
    tensors = [numpy_helper.from_array(tensor(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def tensor(value: Array | Sequence[Any]) -> Array:
    """An array as it is; a list of integers as int64, of floats as float32."""
    if isinstance(value, np.ndarray):
        return value
    array = np.asarray(value)
    return array if array.dtype == np.int64 else array.astype(np.float32)


def run_oracle(source: onnx.ModelProto | str, inputs: Mapping[str, Array]) -> list[Array]:
    """Outputs of onnxruntime, one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    data = source if isinstance(source, str) else source.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def floats(*values: float) -> Array:
    """A float32 vector."""
    return np.array(values, np.float32)


def arange(*shape: int) -> Array:
    """0, 1, 2, ... as float32 of this shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
