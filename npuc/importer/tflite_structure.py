"""Operators that move elements: reshapes, cuts, joins, padding, resizing."""

from __future__ import annotations

from itertools import accumulate, pairwise

from npuc.importer.tflite_model import TfliteTensor
from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.importer.tflite_storage import TO_NCHW
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.table import rescale_table
from npuc.ops.structure import Concat, Pad, ResizeNearest, Slice


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


def import_concatenation(site: Site) -> None:
    """Inputs whose quantization differs from that of the output are rescaled."""
    if site.option("FusedActivationFunction", 0) != 0:
        raise Unsupported("fused activation")
    axis = site.axis(int(site.option("Axis")), len(site.output.shape))
    parts = tuple(_as_output(site, site.input(position)) for position in range(len(site.operator.inputs)))
    _emit_concat(site, axis, parts)


def _as_output(site: Site, tensor: TfliteTensor) -> str:
    """Value of an input in the quantization of the output."""
    builder, value = site.builder, site.builder.plain(tensor)
    if tensor.dtype not in ("INT8", "UINT8"):
        return value
    quant, output = site.quant(tensor), site.quant(site.output)
    if quant == output:
        return value
    return builder.emit(Lookup(rescale_table(quant, output)), (value,), f"{tensor.name}:rescaled", output)


def _emit_concat(site: Site, axis: int, parts: tuple[str, ...]) -> None:
    quant = site.builder.values[parts[0]].quant
    site.builder.set_plain(site.output, site.builder.emit(Concat(axis), parts, site.output.name, quant))


def import_pack(site: Site) -> None:
    """Inputs one after the other along a new axis."""
    site.require_same_quant()
    axis = site.axis(int(site.option("Axis")), len(site.output.shape))
    parts = []
    for position in range(len(site.operator.inputs)):
        tensor = site.input(position)
        shape = (*tensor.shape[:axis], 1, *tensor.shape[axis:])
        parts.append(site.builder.reshape(_as_output(site, tensor), shape, f"{tensor.name}:packed"))
    if len(parts) == 1:
        site.builder.set_plain(site.output, parts[0])
    else:
        _emit_concat(site, axis, tuple(parts))


def import_unpack(site: Site) -> None:
    """One output for each position of an axis, which disappears."""
    tensor = site.input(0)
    axis = site.axis(int(site.option("Axis")), len(tensor.shape))
    if len(site.outputs) != tensor.shape[axis]:
        raise ValueError(f"{len(site.outputs)} outputs, axis {axis} has {tensor.shape[axis]}")
    _emit_parts(site, tensor, axis, [1] * len(site.outputs))


def import_split(site: Site) -> None:
    """Equal parts of an axis."""
    (number,), tensor = site.integers(0, "axis"), site.input(1)
    axis = site.axis(number, len(tensor.shape))
    size, rest = divmod(tensor.shape[axis], len(site.outputs))
    if rest:
        raise ValueError(f"axis {axis} of {list(tensor.shape)} does not split into {len(site.outputs)}")
    _emit_parts(site, tensor, axis, [size] * len(site.outputs))


def import_split_v(site: Site) -> None:
    """Parts of an axis with given sizes, of which one may be -1: the rest."""
    tensor, sizes, (number,) = site.input(0), list(site.integers(1, "sizes")), site.integers(2, "axis")
    axis = site.axis(number, len(tensor.shape))
    sizes = [tensor.shape[axis] - sum(sizes) - 1 if size == -1 else size for size in sizes]
    _emit_parts(site, tensor, axis, sizes)


def _emit_parts(site: Site, tensor: TfliteTensor, axis: int, sizes: list[int]) -> None:
    """Consecutive parts of an axis, each in the shape of its output."""
    shape = tensor.shape
    if len(sizes) != len(site.outputs) or sum(sizes) != shape[axis] or min(sizes) < 1:
        raise ValueError(f"sizes {sizes} of {len(site.outputs)} parts of axis {axis} of {list(shape)}")
    for output, (start, stop) in zip(site.outputs, pairwise(accumulate(sizes, initial=0)), strict=True):
        ranges = [range(start, stop) if i == axis else range(size) for i, size in enumerate(shape)]
        _emit_slice(site, tensor, output, ranges)


def _emit_slice(site: Site, tensor: TfliteTensor, output: TfliteTensor, ranges: list[range]) -> None:
    builder, value = site.builder, site.builder.plain(tensor)
    if [len(chosen) for chosen in ranges] != list(tensor.shape) or any(chosen.step < 0 for chosen in ranges):
        bounds = zip(*((chosen.start, chosen.stop, chosen.step) for chosen in ranges), strict=True)
        value = builder.emit(Slice(*bounds), (value,), output.name, builder.values[value].quant)
    builder.set_plain(output, builder.reshape(value, output.shape, f"{output.name}:shape"))


def import_strided_slice(site: Site) -> None:
    """Python's slice of each axis; an axis of the shrink mask disappears."""
    tensor = site.input(0)
    begin, end, strides = (site.integers(i, role) for i, role in ((1, "begin"), (2, "end"), (3, "strides")))
    if site.option("EllipsisMask") or site.option("NewAxisMask") or site.option("Offset", 0):
        raise Unsupported("ellipsis, new axes or offsets")
    if not len(begin) == len(end) == len(strides) == len(tensor.shape) or 0 in strides:
        raise ValueError(f"begin {begin}, end {end}, strides {strides} on {list(tensor.shape)}")
    ranges = []
    for axis, size in enumerate(tensor.shape):
        start = None if int(site.option("BeginMask")) >> axis & 1 else begin[axis]
        stop = None if int(site.option("EndMask")) >> axis & 1 else end[axis]
        if int(site.option("ShrinkAxisMask")) >> axis & 1:
            start, stop = begin[axis], begin[axis] + 1 or None
        ranges.append(range(*slice(start, stop, strides[axis]).indices(size)))
    if not all(ranges):
        raise ValueError(f"begin {begin}, end {end} select nothing of {list(tensor.shape)}")
    _emit_slice(site, tensor, site.output, ranges)


def import_resize_nearest(site: Site) -> None:
    """Whole factors, for which all conventions but aligned corners agree."""
    site.require_same_quant()
    height, width = site.integers(1, "size")
    _, h, w, _ = site.image.shape
    if height % h or width % w or height < h or width < w or site.option("AlignCorners"):
        raise Unsupported(f"resize of {h}x{w} to {height}x{width}, only whole factors without aligned corners")
    op = ResizeNearest((height // h, width // w))
    site.builder.emit_logical(site.output, op, site.builder.logical(site.image))


def import_resize_bilinear(site: Site) -> None:
    """Interpolation with 10 fractional bits."""
    if site.image.dtype != "INT8":
        raise Unsupported(f"{site.image.name} is {site.image.dtype}, only INT8 is supported")
    site.require_same_quant()
    height, width = site.integers(1, "size")
    op = QResizeBilinear((height, width), bool(site.option("AlignCorners")), bool(site.option("HalfPixelCenters")))
    site.builder.emit_logical(site.output, op, site.builder.logical(site.image))


RULES: dict[str, Rule] = {
    "CONCATENATION": import_concatenation,
    "PACK": import_pack,
    "PAD": import_pad,
    "RESHAPE": import_reshape,
    "RESIZE_BILINEAR": import_resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": import_resize_nearest,
    "SPLIT": import_split,
    "SPLIT_V": import_split_v,
    "STRIDED_SLICE": import_strided_slice,
    "TRANSPOSE": import_transpose,
    "UNPACK": import_unpack,
}
