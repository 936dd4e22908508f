"""TFLite front end: an int8 .tflite file becomes the integer graph, byte-exact with TensorFlow Lite Micro."""

from __future__ import annotations

from npuc.errors import ImportFailure, UnsupportedOp
from npuc.graph.graph import Graph
from npuc.importer.tflite_builder import TfliteBuilder
from npuc.importer.tflite_model import STAGE, TfliteModel, TfliteOperator, read_tflite
from npuc.importer.tflite_rules import RULES
from npuc.importer.tflite_site import Site, Unsupported


def import_tflite(data: bytes, name: str) -> Graph:
    """Graph of the first subgraph of a .tflite file; inputs and outputs keep TFLite's axis order.

    ImportFailure: the file is malformed. UnsupportedOp: lists every operator that cannot be imported, with the reason.
    """
    return build_graph(read_tflite(data), name)


def build_graph(model: TfliteModel, name: str) -> Graph:
    """Graph of a model that was read; raises as `import_tflite`."""
    builder = TfliteBuilder(model, name)
    refusals = []
    for operator in builder.model.operators:
        refusal = _import_operator(builder, operator)
        if refusal:
            refusals.append(f"{operator.label}: {refusal}")
    if refusals:
        raise UnsupportedOp(
            "\n  ".join([f"{len(refusals)} of {len(builder.model.operators)} operators are not supported", *refusals]),
            stage=STAGE,
            hint=f"convert the model to int8 with these operators only: {', '.join(RULES)}",
        )
    return builder.freeze()


def _import_operator(builder: TfliteBuilder, operator: TfliteOperator) -> str:
    """Add the operator to the graph; returns why it cannot be, or an empty string."""
    builder.label = operator.label
    outputs = [builder.model.tensors[index] for index in operator.outputs]
    if any(builder.is_defined(tensor) for tensor in outputs):
        raise ImportFailure("it writes a constant, a graph input, or a tensor that is written already",
                            node=operator.label, stage=STAGE)  # fmt: skip
    try:
        if operator.kind not in RULES:
            raise Unsupported("no rule for this operator")
        RULES[operator.kind](Site(builder, operator))
    except Unsupported as refusal:
        for tensor in outputs:
            builder.declare_opaque(tensor)
        return str(refusal)
    except ValueError as error:
        raise ImportFailure(f"malformed TFLite model: {error}", node=operator.label, stage=STAGE) from error
    return ""
