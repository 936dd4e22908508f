"""Any graph as an ONNX model with the same value names, for Netron and, where it is float, for onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from npuc.graph.graph import Graph, Node
from npuc.graph.types import Array
from npuc.ops.catalog import EXPORT_FORMS
from npuc.ops.op import Op

OPSET = 20
IR_VERSION = 9

DOMAIN = "npuc"
"""Domain of operators that have no ONNX form; such a model can be looked at, not run."""


def export_onnx(graph: Graph, keep: Iterable[str] = ()) -> onnx.ModelProto:
    """The model; the values named in `keep` become outputs as well. An output listed twice appears once."""
    writer = Writer(graph)
    for node in graph.nodes:
        writer.write(node)
    outputs = dict.fromkeys((*graph.outputs, *keep))
    proto = helper.make_graph(
        writer.nodes,
        graph.name,
        [value_info(graph, name) for name in graph.inputs],
        [value_info(graph, name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in writer.constants.items()],
        value_info=[value_info(graph, name) for node in graph.nodes for name in node.outputs if name not in outputs],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    if any(node.domain == DOMAIN for node in writer.nodes):
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    return helper.make_model(proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="npuc")


def value_info(graph: Graph, name: str) -> onnx.ValueInfoProto:
    """Type of a value; its quantization is in the documentation string."""
    kind = graph.type_of(name)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype))
    return helper.make_tensor_value_info(name, element, kind.shape, doc_string=str(kind) if kind.quant else "")


class Writer:
    """The model while it is written; for the operator being written it is also the `OnnxExport` of its form."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = dict(graph.constants)
        self.inputs: tuple[str, ...] = ()
        self.outputs: tuple[str, ...] = ()
        self._name = ""
        self._taken = set(graph.values)

    def write(self, node: Node) -> None:
        """Write one operator in its ONNX form, or as a node of our own domain."""
        self._name, self.inputs, self.outputs = node.name, node.inputs, node.outputs
        form = EXPORT_FORMS.get(type(node.op))
        if form is not None:
            form(node.op, self)
        else:
            self.nodes.append(foreign_node(node))

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of input `index`."""
        return self.graph.type_of(self.inputs[index]).shape

    def node(self, op_type: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attributes: Any) -> None:
        """Write one ONNX node."""
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=self._name, **attributes))

    def constant(self, array: Array) -> str:
        """Write a constant; returns its name."""
        name = self.temporary()
        self.constants[name] = np.asarray(array)
        return name

    def temporary(self) -> str:
        """A value name that is not in use."""
        number = 1
        while (name := f"{self.outputs[0]}/onnx{number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name


def foreign_node(node: Node) -> onnx.NodeProto:
    """A node whose attributes are the operator's fields as text."""
    attributes = {item.name: field_text(node.op, item.name) for item in fields(node.op)}
    return helper.make_node(node.op.kind, node.inputs, node.outputs, name=node.name, domain=DOMAIN, **attributes)


def field_text(op: Op, name: str) -> str:
    """Value of one field, shortened."""
    text = str(getattr(op, name))
    return text if len(text) <= 200 else text[:197] + "..."
