"""Between integers and floats: at the border of the graph the host does it, a function of one value is a table."""

from __future__ import annotations

import numpy as np

from npuc.graph.types import QuantParams
from npuc.importer.tflite_builder import TfliteBuilder
from npuc.importer.tflite_model import TfliteTensor
from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.importer.tflite_storage import TO_INT8, quant_of
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize, Quotient, SquareRoot, ToFloat
from npuc.ops.integer.table import rescale_table
from npuc.ops.op import Op

MAX_CHAIN = 16
"""Float operators on one value that a table looks back over."""


def import_quantize(site: Site) -> None:
    """Float to integer, or another quantization of an integer."""
    tensor, output = site.input(0), site.output
    quant = site.quant(output)
    if tensor.dtype != "FLOAT32":
        _requantize(site, site.quant(tensor), quant)
    elif site.builder.is_boundary(tensor):
        _take_stored(site.builder, tensor, output)
    else:
        _quantize(site, Quantize(quant.scale, quant.zero_point))


def _take_stored(builder: TfliteBuilder, tensor: TfliteTensor, output: TfliteTensor) -> None:
    unsigned = builder.unsigned(tensor)
    if unsigned is None:
        builder.alias(output, tensor)
    else:
        builder.set_unsigned(output, unsigned)


def _requantize(site: Site, source: QuantParams, result: QuantParams) -> None:
    builder, tensor = site.builder, site.input(0)
    unsigned = builder.unsigned(tensor)
    if source == result:
        _take_stored(builder, tensor, site.output)
    elif unsigned is None:
        builder.emit_logical(site.output, Lookup(rescale_table(source, result)), builder.logical(tensor))
    else:
        table = Lookup(rescale_table(source, result))
        builder.set_plain(site.output, builder.emit(table, (unsigned,), site.output.name, result))


def _quantize(site: Site, op: Quantize) -> None:
    """A chain of float operators from an 8-bit value becomes a table from there."""
    builder = site.builder
    value = builder.plain(site.input(0))
    root, chain = _chain(builder, value)
    kind = builder.values[root].dtype
    if kind not in ("int8", "uint8") or builder.values[root].shape != site.output.shape:
        builder.set_plain(site.output, builder.emit(op, (value,), site.output.name, quant_of(site.output)))
        return
    entries = np.arange(256, dtype=np.uint8) if kind == "uint8" else np.arange(-128, 128).astype(np.int8)
    for step in (*chain, op):
        (entries,) = step.reference(entries)
    if kind == "uint8" and tuple(entries.tolist()) == TO_INT8:
        builder.set_unsigned(site.output, root)
        return
    table = Lookup(tuple(entries.tolist()))
    builder.set_plain(site.output, builder.emit(table, (root,), site.output.name, quant_of(site.output)))


def _chain(builder: TfliteBuilder, value: str) -> tuple[str, list[Op]]:
    """The value that `value` is a function of, and the operators from there."""
    chain: list[Op] = []
    while len(chain) < MAX_CHAIN:
        node = builder.nodes.get(value)
        if node is None or not isinstance(node.op, SquareRoot | ToFloat | Dequantize):
            break
        chain.insert(0, node.op)
        value = node.inputs[0]
    return value, chain


def import_dequantize(site: Site) -> None:
    """At the end of the graph the host does it."""
    builder, output, quant = site.builder, site.output, site.quant(site.input(0))
    is_read = any(output.index in operator.inputs for operator in builder.model.operators)
    if output.index in builder.model.outputs and not is_read:
        builder.set_host(output, site.input(0))
    else:
        _emit(site, Dequantize(quant.scale, quant.zero_point))


def import_cast(site: Site) -> None:
    """To float32, from uint8 for inputs of the graph only."""
    builder, tensor = site.builder, site.input(0)
    source = builder.unsigned(tensor) if tensor.dtype == "UINT8" else builder.plain(tensor)
    if source is None or site.output.dtype != "FLOAT32" or tensor.dtype == "FLOAT32":
        raise Unsupported(f"cast from {tensor.dtype} to {site.output.dtype}")
    builder.set_plain(site.output, builder.emit(ToFloat(), (source,), site.output.name, None))


def import_sqrt(site: Site) -> None:
    """Of float32."""
    _require_float(site)
    _emit(site, SquareRoot())


def import_log_softmax(site: Site) -> None:
    """Of float32."""
    _require_float(site)
    _emit(site, LogSoftmax())


def import_div(site: Site) -> None:
    """Of float32."""
    _require_float(site)
    if site.option("FusedActivationFunction", 0) != 0:
        raise Unsupported("fused activation")
    _emit(site, Quotient())


def _require_float(site: Site) -> None:
    if site.input(0).dtype != "FLOAT32":
        raise Unsupported(f"{site.input(0).dtype}, only FLOAT32 is supported")


def _emit(site: Site, op: Op) -> None:
    operands = tuple(site.builder.plain(site.input(position)) for position in range(len(site.operator.inputs)))
    site.builder.set_plain(site.output, site.builder.emit(op, operands, site.output.name, None))


RULES: dict[str, Rule] = {
    "CAST": import_cast,
    "DEQUANTIZE": import_dequantize,
    "DIV": import_div,
    "LOG_SOFTMAX": import_log_softmax,
    "QUANTIZE": import_quantize,
    "SQRT": import_sqrt,
}
