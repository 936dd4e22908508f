"""What each TFLite operator means: one rule each, entered in RULES under TFLite's name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.arithmetic import ADD_LEFT_SHIFT, SOFTMAX_ROW, softmax_scale
from npuc.graph.types import Array
from npuc.importer.tflite_builder import TO_NCHW, TO_NHWC, TfliteBuilder
from npuc.importer.tflite_model import TfliteTensor
from npuc.importer.tflite_site import Site, Unsupported
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import QAdd
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import addition_rescales, quantize_multiplier
from npuc.ops.integer.softmax import SOFTMAX_QUANT, QSoftmax
from npuc.ops.structure import Pad
from npuc.ops.window import Window

Rule = Callable[[Site], None]


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
    scale, output = site.quant(site.image).scale, site.quant(site.output).scale
    factors = [scale * weight / output for weight in site.input(1).scales]
    _emit_qconv(site, site.builder.logical(site.image), weights, window, groups, factors, is_plain=False)


def import_fully_connected(site: Site) -> None:
    """Weights [m,k] on the input as [rows,k]; TFLite multiplies the scales of a whole tensor in float32."""
    weights = _weights(site, 2)
    if site.option("WeightsFormat") != 0:
        raise Unsupported(f"weights format {site.option('WeightsFormat')}")
    scale, output = site.quant(site.input(0)).scale, site.quant(site.output).scale
    scales = site.input(1).scales
    factors = [scale * weight / output for weight in scales]
    if len(scales) == 1:
        factors = [float(np.float32(scale) * np.float32(scales[0])) / output]
    k = weights.shape[1]
    x = site.builder.plain(site.input(0))
    rows, rest = divmod(site.builder.values[x].n_elements, max(k, 1))
    if rest or not rows:
        raise ValueError(f"weights {list(weights.shape)} on input {list(site.input(0).shape)}")
    matrix = site.builder.reshape(x, (rows, k, 1, 1), f"{site.input(0).name}:rows")
    _emit_qconv(site, matrix, weights[:, :, None, None], Window((1, 1)), 1, factors, is_plain=True)


def _weights(site: Site, rank: int) -> Array:
    """Constant symmetric int8 weights in TFLite's axis order, which must have a scale."""
    tensor = site.input(1)
    if tensor.dtype != "INT8":
        raise Unsupported(f"weights are {tensor.dtype}, only INT8 is supported")
    weights = site.constant(1, "weights")
    if weights.ndim != rank or weights.size == 0:
        raise ValueError(f"weights {list(weights.shape)}, need rank {rank} and no empty axis")
    if not tensor.scales:
        raise ValueError("weights have no scale")
    if any(tensor.zero_points):
        raise Unsupported("weights with a zero point other than 0")
    return weights


def _emit_qconv(
    site: Site, x: str, weights: Array, window: Window, groups: int,
    factors: list[float], *, is_plain: bool,
) -> None:  # fmt: skip
    """Convolution whose output scale factors are `factors`, one or one a channel; weights [oc,ic/groups,kh,kw]."""
    builder, channels = site.builder, weights.shape[0]
    if len(factors) not in (1, channels):
        raise ValueError(f"{len(factors)} weight scales, need 1 or {channels}")
    rescales = [quantize_multiplier(factor) for factor in factors] * (channels // len(factors))
    op = QConv(
        window,
        groups,
        site.quant(site.input(0)).zero_point,
        site.quant(site.output).zero_point,
        tuple(rescale.multiplier for rescale in rescales),
        tuple(rescale.shift for rescale in rescales),
        double_round=True,
        clamp=site.clamp(),
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


def import_add(site: Site) -> None:
    """Operands of equal shape, or of shapes that broadcast."""
    first, second = site.input(0), site.input(1)
    quants = site.quant(first), site.quant(second), site.quant(site.output)
    op = QAdd(
        ADD_LEFT_SHIFT,
        *addition_rescales(quants[0].scale, quants[1].scale, quants[2].scale),
        quants[0].zero_point,
        quants[1].zero_point,
        quants[2].zero_point,
        site.clamp(),
    )
    if first.shape == second.shape:
        site.builder.emit_logical(site.output, op, site.builder.logical(first), site.builder.logical(second))
        return
    rank = max(len(first.shape), len(second.shape))
    if rank > 4:
        raise Unsupported(f"broadcasting of rank {rank}, limit 4")
    operands = tuple(_as_image(site.builder, tensor) for tensor in (first, second))
    value = site.builder.emit(op, operands, site.output.name, quants[2])
    plain = site.builder.transpose(value, TO_NHWC, f"{site.output.name}:nhwc")
    site.builder.set_plain(site.output, site.builder.reshape(plain, site.output.shape, f"{site.output.name}:plain"))


def _as_image(builder: TfliteBuilder, tensor: TfliteTensor) -> str:
    """The tensor with axes of size 1 put in front of it up to rank 4, as NCHW: numpy's rule for broadcasting."""
    shape = (1,) * (4 - len(tensor.shape)) + tensor.shape
    image = builder.reshape(builder.plain(tensor), shape, f"{tensor.name}:image")
    return builder.transpose(image, TO_NCHW, f"{tensor.name}:image")


def import_average_pool(site: Site) -> None:
    """Sums of stored values: input and output share their quantization."""
    _require_pool(site)
    op = QAveragePool(site.window((site.size("FilterHeight"), site.size("FilterWidth"))), site.clamp())
    site.builder.emit_logical(site.output, op, site.builder.logical(site.input(0)))


def import_max_pool(site: Site) -> None:
    """Comparisons of stored values: input and output share their quantization."""
    _require_pool(site)
    op = QMaxPool(site.window((site.size("FilterHeight"), site.size("FilterWidth"))), site.clamp())
    site.builder.emit_logical(site.output, op, site.builder.logical(site.input(0)))


def _require_pool(site: Site) -> None:
    site.quant(site.input(0))
    site.require_same_quant()


def import_mean(site: Site) -> None:
    """Mean over rows and columns of [n,h,w,c], with or without the reduced axes in the result."""
    tensor, quant, output = site.input(0), site.quant(site.input(0)), site.quant(site.output)
    rank = len(tensor.shape)
    axes = sorted({axis + rank if axis < 0 else axis for axis in site.integers(1, "axes")})
    if rank != 4 or axes != [1, 2]:
        raise Unsupported(f"mean over axes {axes} of rank {rank}, only rows and columns of rank 4 are supported")
    op = QMean(quantize_multiplier(quant.scale / output.scale), quant.zero_point, output.zero_point, (-128, 127))
    site.builder.emit_logical(site.output, op, site.builder.logical(tensor))


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


def import_pad(site: Site) -> None:
    """Padding with the zero point; pads [rank,2]."""
    tensor, quant = site.input(0), site.require_same_quant()
    pads = site.integers(1, "pads")
    rank = len(tensor.shape)
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise ValueError(f"pads {list(pads)} on {list(tensor.shape)}")
    before, after, value = pads[::2], pads[1::2], float(quant.zero_point if quant else 0)
    if rank == 4:
        op = Pad(tuple(before[axis] for axis in TO_NCHW), tuple(after[axis] for axis in TO_NCHW), value)
        site.builder.emit_logical(site.output, op, site.builder.logical(tensor))
        return
    padded = site.builder.emit(Pad(before, after, value), (site.builder.plain(tensor),), site.output.name, quant)
    site.builder.set_plain(site.output, padded)


def import_reshape(site: Site) -> None:
    """The declared shape of the output decides; elements keep TFLite's order."""
    site.require_same_quant()
    value = site.builder.reshape(site.builder.plain(site.input(0)), site.output.shape, site.output.name)
    site.builder.set_plain(site.output, value)


def import_transpose(site: Site) -> None:
    """Axes permuted in TFLite's order."""
    site.require_same_quant()
    perm, rank = site.integers(1, "perm"), len(site.input(0).shape)
    perm = tuple(axis + rank if axis < 0 else axis for axis in perm)
    if sorted(perm) != list(range(rank)):
        raise ValueError(f"perm {list(perm)} is no permutation of {rank} axes")
    value = site.builder.transpose(site.builder.plain(site.input(0)), perm, site.output.name)
    site.builder.set_plain(site.output, value)


RULES: dict[str, Rule] = {
    "ADD": import_add,
    "AVERAGE_POOL_2D": import_average_pool,
    "CONV_2D": import_conv,
    "DEPTHWISE_CONV_2D": import_depthwise,
    "FULLY_CONNECTED": import_fully_connected,
    "MAX_POOL_2D": import_max_pool,
    "MEAN": import_mean,
    "PAD": import_pad,
    "RESHAPE": import_reshape,
    "SOFTMAX": import_softmax,
    "TRANSPOSE": import_transpose,
}
