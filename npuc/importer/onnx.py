"""ONNX to the graph IR: opsets 7 to the current one, static shapes, constants folded, everything refused at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import cache

import onnx

from npuc.errors import ImportFailure
from npuc.graph.graph import Graph, verify
from npuc.graph.types import TensorType
from npuc.importer.onnx_builder import TEMPORARY, GraphBuilder
from npuc.importer.onnx_inputs import INPUT_TYPES, bind_inputs
from npuc.importer.onnx_load import Source, load_model, opset_of
from npuc.importer.onnx_nodes import Walker

log = logging.getLogger("npuc.import")


def import_onnx(source: Source, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Graph:
    """The float graph of a model, given as a path, as bytes or parsed; `shapes` binds symbolic inputs.

    Raises ImportFailure for a file that cannot be used, UsageError for shapes that do not fit, and UnsupportedOp with
    every node that cannot be compiled.
    """
    model = load_model(source)
    graph = model.graph
    if not graph.output:
        raise ImportFailure("the model has no outputs")
    inputs = bind_inputs(graph, shapes or {})
    warn_about_listed_initializers(model)
    names = set(value_names(graph))
    if any(name.startswith(TEMPORARY) for name in names):
        raise ImportFailure("a value name begins with a zero byte")
    builder = GraphBuilder(names)
    builder.values.update(inputs)
    walker = Walker(builder, opset_of(model), model.ir_version, guess_types(model, inputs))
    scope = {name: name for name in inputs}
    walker.walk(graph, scope)
    if walker.rejected:
        raise walker.report()
    outputs = tuple(scope[value.name] for value in graph.output)
    return verify(builder.finish(graph.name or "model", inputs, outputs), "import")


def value_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of all values of the main graph; new names must differ from them."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from node.output


def warn_about_listed_initializers(model: onnx.ModelProto) -> None:
    """Since IR version 4 an initializer that is also an input may be overridden at run time; here it is constant."""
    listed = {value.name for value in model.graph.input} & {tensor.name for tensor in model.graph.initializer}
    if listed and model.ir_version >= 4:
        log.warning("inputs with an initial value are taken as constants: %d, first %s", len(listed), min(listed))


def guess_types(model: onnx.ModelProto, inputs: Mapping[str, TensorType]) -> Callable[[str], TensorType | None]:
    """Types that ONNX infers, computed only when a node is refused."""

    @cache
    def inferred() -> dict[str, TensorType]:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        for value in copy.graph.input:
            if value.name in inputs:
                shape = value.type.tensor_type.shape
                del shape.dim[:]
                shape.dim.extend(onnx.TensorShapeProto.Dimension(dim_value=size) for size in inputs[value.name].shape)
        try:
            values = onnx.shape_inference.infer_shapes(copy).graph.value_info
        except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
            return {}
        return {value.name: guessed for value in values if (guessed := static_type(value))}

    return lambda name: inferred().get(name)


def static_type(value: onnx.ValueInfoProto) -> TensorType | None:
    """Type of a value whose dimensions are all known."""
    tensor = value.type.tensor_type
    sizes = tuple(int(dim.dim_value) for dim in tensor.shape.dim)
    if not tensor.HasField("shape") or tensor.elem_type not in INPUT_TYPES or min(sizes, default=1) < 1:
        return None
    return TensorType(INPUT_TYPES[tensor.elem_type], sizes)
