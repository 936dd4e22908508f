"""Writes ink.onnx: image float [1,1,32,32] -> strokes float [1,4], the mean strength of edges in four directions."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.float32)
KERNELS = np.stack([np.rot90(SOBEL, turns) for turns in range(4)])[:, None] / 8


def main() -> None:
    nodes = [
        helper.make_node("Conv", ["image", "kernels"], ["edges"], name="edges", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["edges"], ["strength"], name="strength"),
        helper.make_node("GlobalAveragePool", ["strength"], ["pooled"], name="pool"),
        helper.make_node("Flatten", ["pooled"], ["strokes"], name="flatten"),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 32, 32])
    strokes = helper.make_tensor_value_info("strokes", TensorProto.FLOAT, [1, 4])
    kernels = numpy_helper.from_array(np.ascontiguousarray(KERNELS), "kernels")
    graph = helper.make_graph(nodes, "ink", [image], [strokes], [kernels])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, Path(__file__).with_name("ink.onnx"))


if __name__ == "__main__":
    main()
