"""Small float graphs, quantized with ranges from the very samples that they are judged on."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from npuc.graph.graph import Graph, Node
from npuc.graph.types import Array
from npuc.importer.onnx import import_onnx
from npuc.passes import GRAPH_PASSES, run_passes
from npuc.ptq.calibrate import calibrate_model
from npuc.ptq.evaluate import evaluate_quantized
from npuc.ptq.quantize import quantize
from tests.onnx_models import model


def float_graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str] = ("y",),
    **constants: Any,
) -> Graph:
    return run_passes(import_onnx(model(nodes, inputs, outputs, constants)), GRAPH_PASSES)


def normal(shape: Sequence[int], n: int = 8, seed: int = 0) -> Array:
    """`n` samples for an input of this shape, whose axis 0 is 1."""
    return np.random.default_rng(seed).standard_normal((n, *shape[1:])).astype(np.float32)


def samples_for(graph: Graph) -> dict[str, Array]:
    return {name: normal(graph.values[name].shape, seed=i) for i, name in enumerate(graph.inputs)}


def quantized(graph: Graph, samples: Mapping[str, Array] | None = None, observer: str = "minmax") -> Graph:
    return quantize(graph, calibrate_model(graph, samples or samples_for(graph), observer))


def outputs_of(graph: Graph, samples: Mapping[str, Array]) -> dict[str, Array]:
    """Dequantized outputs of an integer graph."""
    return evaluate_quantized(graph, samples)


def kinds(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes]


def only(graph: Graph, kind: str) -> Node:
    (node,) = [node for node in graph.nodes if node.op.kind == kind]
    return node


def step_of(graph: Graph, value: str) -> float:
    """The scale of a quantized value."""
    quant = graph.values[value].quant
    assert quant is not None
    return quant.scale
