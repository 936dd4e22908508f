"""Arithmetic of two operands, functions of one as tables, means."""

from __future__ import annotations

import math
from collections.abc import Callable

from isa.arithmetic import ADD_LEFT_SHIFT
from npuc.graph.types import QuantParams
from npuc.importer.tflite_builder import TfliteBuilder
from npuc.importer.tflite_indexing import emit_arithmetic, is_index
from npuc.importer.tflite_model import TfliteTensor
from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.importer.tflite_storage import TO_NCHW, TO_NHWC
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.pool import QMean
from npuc.ops.integer.rescale import addition_rescales, quantize_multiplier
from npuc.ops.integer.table import LOGISTIC_QUANT, TANH_QUANT, logistic_table, tanh_table
from npuc.ops.op import Op


def import_add(site: Site) -> None:
    """Rescaled sum."""
    _emit_binary(site, _addition(site, subtract=False))


def import_sub(site: Site) -> None:
    """Rescaled difference; exact for indices."""
    if is_index(site):
        emit_arithmetic(site, "sub")
        return
    _emit_binary(site, _addition(site, subtract=True))


def _addition(site: Site, *, subtract: bool) -> QAdd:
    first, second, output = _quants(site)
    rescales = addition_rescales(first.scale, second.scale, output.scale)
    zero_points = (first.zero_point, second.zero_point, output.zero_point)
    return QAdd(ADD_LEFT_SHIFT, *rescales, *zero_points, site.clamp(), subtract)


def import_mul(site: Site) -> None:
    """Rescaled product; exact for indices."""
    if is_index(site):
        emit_arithmetic(site, "mul")
        return
    first, second, output = _quants(site)
    factor = quantize_multiplier(first.scale * second.scale / output.scale)
    _emit_binary(site, QMul(factor, first.zero_point, second.zero_point, output.zero_point, site.clamp()))


def _quants(site: Site) -> tuple[QuantParams, QuantParams, QuantParams]:
    return site.quant(site.input(0)), site.quant(site.input(1)), site.quant(site.output)


def _emit_binary(site: Site, op: Op) -> None:
    """Operands of equal shape, or of shapes that broadcast."""
    first, second = site.input(0), site.input(1)
    if first.shape == second.shape:
        site.builder.emit_logical(site.output, op, site.builder.logical(first), site.builder.logical(second))
        return
    rank = max(len(first.shape), len(second.shape))
    if rank > 4:
        raise Unsupported(f"broadcasting of rank {rank}, limit 4")
    operands = tuple(_as_image(site.builder, tensor) for tensor in (first, second))
    value = site.builder.emit(op, operands, site.output.name, site.quant(site.output))
    plain = site.builder.transpose(value, TO_NHWC, f"{site.output.name}:nhwc")
    site.builder.set_plain(site.output, site.builder.reshape(plain, site.output.shape, f"{site.output.name}:plain"))


def _as_image(builder: TfliteBuilder, tensor: TfliteTensor) -> str:
    """The tensor with axes of size 1 put in front of it up to rank 4, as NCHW: numpy's rule for broadcasting."""
    if len(tensor.shape) == 4:
        return builder.logical(tensor)
    shape = (1,) * (4 - len(tensor.shape)) + tensor.shape
    image = builder.reshape(builder.plain(tensor), shape, f"{tensor.name}:image")
    return builder.transpose(image, TO_NCHW, f"{tensor.name}:image")


def import_logistic(site: Site) -> None:
    """1 / (1 + exp(-x))."""
    _emit_function(site, logistic_table, LOGISTIC_QUANT)


def import_tanh(site: Site) -> None:
    """The hyperbolic tangent."""
    _emit_function(site, tanh_table, TANH_QUANT)


def _emit_function(site: Site, tabulate: Callable[[QuantParams], tuple[int, ...]], needed: QuantParams) -> None:
    quant, output = site.quant(site.input(0)), site.quant(site.output)
    if output != needed:
        raise Unsupported(f"output has scale {output.scale:g}, zero point {output.zero_point}, "
                          f"need {needed.scale:g} and {needed.zero_point}")  # fmt: skip
    site.builder.emit_logical(site.output, Lookup(tabulate(quant)), site.builder.logical(site.input(0)))


def import_mean(site: Site) -> None:
    """Mean over any axes, with or without them in the result; for other axes than rows and columns of [n,h,w,c] the
    longest axis that stays becomes the channels.
    """
    tensor, builder = site.input(0), site.builder
    quant, output = site.quant(tensor), site.quant(site.output)
    rank = len(tensor.shape)
    reduced = sorted({site.axis(axis, rank) for axis in site.integers(1, "axes")})
    op = QMean(quantize_multiplier(quant.scale / output.scale), quant.zero_point, output.zero_point, (-128, 127))
    if rank == 4 and reduced == [1, 2] and len(site.output.shape) in (2, 4):
        value = builder.emit(op, (builder.logical(tensor),), site.output.name, output)
        plain = builder.transpose(value, TO_NHWC, f"{site.output.name}:nhwc")
        builder.set_plain(site.output, builder.reshape(plain, site.output.shape, f"{site.output.name}:plain"))
        return
    kept = [axis for axis in range(rank) if axis not in reduced]
    channels = max(kept, key=lambda axis: (tensor.shape[axis], axis), default=0)
    rest = [axis for axis in kept if axis != channels]
    sizes = [math.prod(tensor.shape[axis] for axis in axes) for axes in (rest, [channels] * bool(kept), reduced)]
    order = (*rest, *([channels] if kept else []), *reduced)
    image = builder.transpose(builder.plain(tensor), order, f"{tensor.name}:mean")
    image = builder.reshape(image, (*sizes, 1), f"{tensor.name}:mean")
    value = builder.emit(op, (image,), site.output.name, output)
    value = builder.reshape(value, tuple(tensor.shape[axis] for axis in order[: len(kept)]), f"{site.output.name}:kept")
    back = tuple(order.index(axis) for axis in kept)
    value = builder.transpose(value, back, f"{site.output.name}:kept")
    builder.set_plain(site.output, builder.reshape(value, site.output.shape, f"{site.output.name}:plain"))


RULES: dict[str, Rule] = {
    "ADD": import_add,
    "LOGISTIC": import_logistic,
    "MEAN": import_mean,
    "MUL": import_mul,
    "SUB": import_sub,
    "TANH": import_tanh,
}
