"""Convolutions, dense layers, pooling and softmax."""

from __future__ import annotations

import numpy as np

from isa.arithmetic import SOFTMAX_ROW, softmax_scale
from npuc.graph.types import Array
from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.importer.tflite_storage import signed
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.pool import QAveragePool, QMaxPool
from npuc.ops.integer.rescale import quantize_multiplier
from npuc.ops.integer.softmax import SOFTMAX_QUANT, QSoftmax
from npuc.ops.window import Window


def import_conv(site: Site) -> None:
    """Weights [oc,kh,kw,ic/groups]."""
    weights = _weights(site, 4).transpose(0, 3, 1, 2)
    depth, channels = weights.shape[1], site.image.shape[3]
    if depth < 1 or channels % depth:
        raise ValueError(f"weights for {depth} input channels on {channels}")
    _emit_conv(site, weights, channels // depth)


def import_depthwise(site: Site) -> None:
    """Weights [1,kh,kw,ic*multiplier]; on one input channel it is an ordinary convolution."""
    weights = _weights(site, 4)
    if weights.shape[0] != 1:
        raise ValueError(f"depthwise weights {list(weights.shape)}, need 1 in front")
    _emit_conv(site, weights.transpose(3, 0, 1, 2), site.image.shape[3])


def _emit_conv(site: Site, weights: Array, groups: int) -> None:
    kernel = (weights.shape[2], weights.shape[3])
    window = site.window(kernel, (site.size("DilationHFactor"), site.size("DilationWFactor")))
    factors = _factors(site, is_float32=site.image.dtype == "UINT8")
    _emit_qconv(site, site.builder.image(site.image), weights, window, groups, factors, is_plain=False)


def _factors(site: Site, *, is_float32: bool) -> list[float]:
    """Output scale factors, one or one a channel; TFLite multiplies some scales of whole tensors in float32."""
    scale, output = site.quant(site.input(0)).scale, site.quant(site.output).scale
    scales = site.input(1).scales
    if is_float32 and len(scales) == 1:
        return [float(np.float32(scale) * np.float32(scales[0])) / output]
    return [scale * weight / output for weight in scales]


def import_fully_connected(site: Site) -> None:
    """Weights [m,k] on the input as [rows,k]."""
    weights = _weights(site, 2)
    if site.option("WeightsFormat") != 0:
        raise Unsupported(f"weights format {site.option('WeightsFormat')}")
    factors = _factors(site, is_float32=True)
    k = weights.shape[1]
    x = site.builder.plain(site.input(0))
    rows, rest = divmod(site.builder.values[x].n_elements, max(k, 1))
    if rest or not rows:
        raise ValueError(f"weights {list(weights.shape)} on input {list(site.input(0).shape)}")
    matrix = site.builder.reshape(x, (rows, k, 1, 1), f"{site.input(0).name}:rows")
    _emit_qconv(site, matrix, weights[:, :, None, None], Window((1, 1)), 1, factors, is_plain=True)


def _weights(site: Site, rank: int) -> Array:
    """Constant weights in TFLite's axis order as int8, which must have a scale."""
    tensor = site.input(1)
    if tensor.dtype not in ("INT8", "UINT8"):
        raise Unsupported(f"weights are {tensor.dtype}, only INT8 and UINT8 are supported")
    weights = signed(site.constant(1, "weights"))
    if weights.ndim != rank or weights.size == 0:
        raise ValueError(f"weights {list(weights.shape)}, need rank {rank} and no empty axis")
    if not tensor.scales:
        raise ValueError("weights have no scale")
    return weights


def _weight_zero_point(site: Site) -> int:
    """Zero point of all weights as they are stored."""
    zero_points = set(site.input(1).zero_points)
    if len(zero_points) > 1:
        raise Unsupported("weights with different zero points")
    (zero_point,) = zero_points
    lowest = 0 if site.input(1).dtype == "UINT8" else -128
    if not lowest <= zero_point <= lowest + 255:
        raise ValueError(f"weights have zero point {zero_point}, outside the range of their type")
    return zero_point - lowest - 128


def _emit_qconv(
    site: Site, x: str, weights: Array, window: Window, groups: int,
    factors: list[float], *, is_plain: bool,
) -> None:  # fmt: skip
    """Convolution whose output scale factors are `factors`, one or one a channel; weights [oc,ic/groups,kh,kw]."""
    builder, channels = site.builder, weights.shape[0]
    if len(factors) not in (1, channels):
        raise ValueError(f"{len(factors)} weight scales, need 1 or {channels}")
    rescales = [quantize_multiplier(factor) for factor in factors] * (channels // len(factors))
    site.quant(site.input(0))
    stored = builder.values[x].quant
    op = QConv(
        window,
        groups,
        stored.zero_point if stored is not None else 0,
        site.quant(site.output).zero_point,
        tuple(rescale.multiplier for rescale in rescales),
        tuple(rescale.shift for rescale in rescales),
        double_round=True,
        clamp=site.clamp(),
        weight_zero_point=_weight_zero_point(site),
    )
    operands = (x, builder.constant(site.input(1).name, weights), _bias(site, channels))
    if is_plain:
        value = builder.emit(op, operands, site.output.name, site.quant(site.output))
        builder.set_plain(site.output, builder.reshape(value, site.output.shape, f"{site.output.name}:plain"))
    else:
        builder.emit_logical(site.output, op, *operands)


def _bias(site: Site, channels: int) -> str:
    if not site.has(2):
        return site.builder.constant(f"{site.operator.label}:bias", np.zeros(channels, np.int32))
    if site.input(2).dtype != "INT32":
        raise Unsupported(f"bias is {site.input(2).dtype}, only INT32 is supported")
    bias = site.constant(2, "bias")
    if bias.size != channels:
        raise ValueError(f"bias {list(bias.shape)} for {channels} output channels")
    return site.builder.constant(site.input(2).name, bias.reshape(-1))


def import_average_pool(site: Site) -> None:
    """Sums of stored values: input and output share their quantization."""
    _require_pool(site)
    window = site.window((site.size("FilterHeight"), site.size("FilterWidth")))
    op = QAveragePool(window, site.clamp(), halves_up=site.image.dtype == "UINT8")
    site.builder.emit_logical(site.output, op, site.builder.logical(site.input(0)))


def import_max_pool(site: Site) -> None:
    """Comparisons of stored values: input and output share their quantization."""
    _require_pool(site)
    op = QMaxPool(site.window((site.size("FilterHeight"), site.size("FilterWidth"))), site.clamp())
    site.builder.emit_logical(site.output, op, site.builder.logical(site.input(0)))


def _require_pool(site: Site) -> None:
    site.quant(site.input(0))
    site.require_same_quant()


def import_softmax(site: Site) -> None:
    """Softmax over the last axis."""
    quant, output = site.quant(site.input(0)), site.quant(site.output)
    if output != SOFTMAX_QUANT:
        raise Unsupported(f"output has scale {output.scale:g}, zero point {output.zero_point}, need 1/256 and -128")
    if site.input(0).shape[-1:] > (SOFTMAX_ROW,):
        raise Unsupported(f"softmax over {site.input(0).shape[-1]} elements, limit {SOFTMAX_ROW}")
    multiplier, left_shift = softmax_scale(float(site.option("Beta")), quant.scale)
    op = QSoftmax(multiplier, left_shift, axis=1)
    site.builder.emit_logical(site.output, op, site.builder.logical(site.input(0)))


RULES: dict[str, Rule] = {
    "AVERAGE_POOL_2D": import_average_pool,
    "CONV_2D": import_conv,
    "DEPTHWISE_CONV_2D": import_depthwise,
    "FULLY_CONNECTED": import_fully_connected,
    "MAX_POOL_2D": import_max_pool,
    "SOFTMAX": import_softmax,
}
