"""Small ONNX models that real networks do not stand in for."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 32, 8, 8)


def conv_chain(length: int = 4) -> bytes:
    """Convolutions of 3x3 and their activations, one behind the other."""
    rng = np.random.default_rng(0)
    nodes, constants, value = [], [], "x"
    for i in range(length):
        weights = (rng.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32)
        constants.append(numpy_helper.from_array(weights, f"w{i}"))
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"))
        value = f"r{i}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"], "pool"))
    return _model(nodes, constants, (1, 32, 1, 1))


def residual_chain(length: int) -> bytes:
    """Blocks of three convolutions of 3x3, each behind an activation, whose input is added to their output."""
    rng = np.random.default_rng(0)
    nodes, constants, value = [], [], "x"
    for block in range(length // 3):
        entry = value
        for i in range(3 * block, 3 * block + 3):
            weights = (rng.standard_normal((32, 32, 3, 3)) / 34).astype(np.float32)
            constants.append(numpy_helper.from_array(weights, f"w{i}"))
            nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1]))
            nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"))
            value = f"r{i}"
        nodes.append(helper.make_node("Add", [entry, value], [f"a{block}"], f"add{block}"))
        value = f"a{block}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"], "pool"))
    return _model(nodes, constants, (1, 32, 1, 1))


def concat_of_100() -> bytes:
    """The same input through 100 convolutions of one output channel, concatenated."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []
    for i in range(100):
        constants.append(numpy_helper.from_array(rng.standard_normal((1, 32, 1, 1)).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("Conv", ["x", f"w{i}"], [f"c{i}"], f"conv{i}"))
    nodes.append(helper.make_node("Concat", [f"c{i}" for i in range(100)], ["all"], "concat", axis=1))
    nodes.append(helper.make_node("GlobalAveragePool", ["all"], ["y"], "pool"))
    return _model(nodes, constants, (1, 100, 1, 1))


def _model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], shape: tuple[int, ...]) -> bytes:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "synthetic", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return bytes(model.SerializeToString())
