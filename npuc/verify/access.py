"""The bytes that an instruction reads and writes, as the manual says them: exact, clipped to the input, rings unrolled.

A window is read as the box of input rows and pixels from its first to its last tap, so that a fetcher may also read
the pixels that a stride skips. Channels, rows and pixels that no tap reaches are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from isa.descriptors import SCALES, ElementType, tensor_fields
from isa.record import WORD_BYTES
from npuc.verify.binary import Decoded
from npuc.verify.byteset import Lattice, lattice, visits_each_byte_once

BYTES_EACH = {ElementType.INT8: 1, ElementType.UINT8: 1, ElementType.INT16: 2, ElementType.INT32: 4}
TABLE_BYTES = 256
TABLE_UNIT = 16
"""Bytes of a unit of the code table, and what its distance from the scales is a multiple of."""

WINDOWED = {"mac.conv", "mac.depthwise", "vec.maxpool", "vec.avgpool"}
TWO_INPUTS = {"vec.add", "vec.sub", "vec.mul"}
SAME_PLACE = {*TWO_INPUTS, "vec.table", "vec.sigmoid", "vec.tanh", "vec.softmax", "vec.copy"}
WHOLE_INPUT, REPEATED, INTERPOLATED = "vec.mean", "vec.resize", "vec.bilinear"
"""Input element = output element of the same place (softmax: all channels of the same pixel)."""

_TENSOR_FIELDS = tuple(field.name.removeprefix("any_") for field in tensor_fields("any", "tensor"))

Axes = list[tuple[int, int]]


@dataclass(frozen=True)
class Access:
    """One operand of an instruction: its sets of bytes and what the rules want to know of it.

    `place` is equal for two operands whose elements lie at the same bytes.
    """

    role: str
    writes: bool
    parts: tuple[Lattice, ...]
    place: tuple[object, ...] = ()
    problem: str = ""
    alignment: int = 1


@dataclass(frozen=True)
class _Box:
    """A region of one batch entry of a tensor."""

    n: int
    y: int
    x: int
    c: int
    height: int
    width: int
    channels: int


KNOWN = {*WINDOWED, *SAME_PLACE, WHOLE_INPUT, REPEATED, INTERPOLATED}
"""Instructions whose accesses are said here; one that is not must not pass unseen."""


def accesses(decoded: Decoded) -> tuple[Access, ...]:
    """All accesses of an instruction, reads before writes; none where its descriptor is missing."""
    mnemonic = decoded.spec.mnemonic
    if decoded.spec.descriptor is not None and not decoded.layer:
        return ()
    if mnemonic.startswith("dma."):
        return tuple(_copies(decoded))
    if mnemonic.startswith(("mac.", "vec.")):
        return tuple(_layer_accesses(decoded))
    return tuple(_ranges(decoded))


def _ranges(decoded: Decoded) -> Iterator[Access]:
    """What a call says that it touches: reads first, because a kernel may write where it has read."""
    for item in sorted(decoded.ranges, key=lambda item: item.is_written):
        role = "output" if item.is_written else "input"
        yield Access(role, item.is_written, (lattice(item.address, [(item.n_bytes, 1)]),))


def _copies(decoded: Decoded) -> Iterator[Access]:
    values, layer = decoded.values, decoded.layer
    for role in ("source", "destination"):
        if role in values:
            axes = [(values["length"], 1)] if "length" in values else _four_axes(layer, role)
            yield _flat(role, values[role], axes, writes=role == "destination")


def _four_axes(layer: Mapping[str, int], role: str) -> Axes:
    return [(layer["size_0"], 1), *((layer[f"size_{i}"], layer[f"{role}_{i}"]) for i in (1, 2, 3))]


def _flat(role: str, address: int, axes: Axes, *, writes: bool = False) -> Access:
    problem = "" if not writes or visits_each_byte_once(axes) else "writes a byte twice"
    return Access(role, writes, (lattice(address, axes),), problem=problem)


def _layer_accesses(decoded: Decoded) -> Iterator[Access]:
    mnemonic, layer = decoded.spec.mnemonic, decoded.layer
    region = _Box(**{name: decoded.values[name] for name in _Box.__dataclass_fields__})
    source = _input_box(decoded, region)
    if source is not None:
        yield _tensor(layer, "ifm", source)
    if mnemonic in TWO_INPUTS or (mnemonic.startswith("mac.") and layer["use_residual"]):
        yield _tensor(layer, "ifm2", region)
    if mnemonic.startswith("mac."):
        yield from _parameters(decoded, region)
    if mnemonic == "vec.table" or (mnemonic.startswith("mac.") and layer["use_table"]):
        yield _flat("table", layer["table"], [(TABLE_BYTES, 1)])
    yield _tensor(layer, "ofm", region)


def _parameters(decoded: Decoded, region: _Box) -> Iterator[Access]:
    """Weights, raw or coded, with their code table, and scales of a MAC instruction."""
    values, layer = decoded.values, decoded.layer
    n_bytes = layer["kernel_h"] * layer["kernel_w"] * values["k_channels"] * region.channels
    record = SCALES[layer["scale_form"]].length_bytes
    if values["coded_words"]:
        n_bytes = values["coded_words"] * WORD_BYTES
        table = layer["scales"] + -(-record * layer["ofm_channels"] // TABLE_UNIT) * TABLE_UNIT
        units = layer["code_table"]
        yield replace(
            _flat("code table", table, [(max(units, 1) * TABLE_UNIT, 1)]), problem="" if units else "has no length"
        )
    yield _flat("weights", values["weights"], [(n_bytes, 1)])
    yield _flat("scales", layer["scales"] + record * region.c, [(record * region.channels, 1)])


def _input_box(decoded: Decoded, region: _Box) -> _Box | None:
    """The box of the first input; None when it lies wholly in the padding."""
    mnemonic, layer = decoded.spec.mnemonic, decoded.layer
    if mnemonic in SAME_PLACE:
        return region
    if mnemonic == WHOLE_INPUT:
        return replace(region, y=0, x=0, height=layer["ifm_height"], width=layer["ifm_width"])
    if mnemonic == REPEATED:
        top, left = region.y // layer["stride_h"], region.x // layer["stride_w"]
        bottom = (region.y + region.height - 1) // layer["stride_h"]
        right = (region.x + region.width - 1) // layer["stride_w"]
        return replace(region, y=top, x=left, height=bottom - top + 1, width=right - left + 1)
    if mnemonic == INTERPOLATED:
        rows = _neighbours(layer["multiplier_1"], layer["mid_low"], region.y, region.height, layer["ifm_height"])
        pixels = _neighbours(layer["multiplier_2"], layer["mid_high"], region.x, region.width, layer["ifm_width"])
        return replace(region, y=rows.start, x=pixels.start, height=len(rows), width=len(pixels))
    rows = _taps(layer, "h", "pad_top", region.y, region.height, layer["ifm_height"])
    pixels = _taps(layer, "w", "pad_left", region.x, region.width, layer["ifm_width"])
    box = replace(region, y=rows.start, x=pixels.start, height=len(rows), width=len(pixels))
    if mnemonic == "mac.conv":
        box = replace(box, c=decoded.values["k"], channels=decoded.values["k_channels"])
    return box if rows and pixels else None


def _neighbours(scale: int, offset: int, first: int, outputs: int, length: int) -> range:
    """Input positions next to places that lie `scale` / 1024 apart."""
    start = max(first * scale + offset, 0) >> 10
    stop = -(-((first + outputs - 1) * scale + offset) >> 10)
    return range(start, max(min(stop, length - 1), start) + 1)


def _taps(layer: Mapping[str, int], axis: str, pad: str, first: int, outputs: int, length: int) -> range:
    """Input positions between the first and the last tap that lies inside the input."""
    start = first * layer[f"stride_{axis}"] - layer[pad]
    reach = (outputs - 1) * layer[f"stride_{axis}"] + (layer[f"kernel_{axis}"] - 1) * layer[f"dilation_{axis}"]
    return range(max(start, 0), min(start + reach + 1, length))


def _tensor(layer: Mapping[str, int], prefix: str, box: _Box) -> Access:
    get = {name: layer[f"{prefix}_{name}"] for name in _TENSOR_FIELDS}
    each, ring = BYTES_EACH[ElementType(get["type"])], get["ring"]
    channels = layer["ifm_channels" if prefix == "ifm" else "ofm_channels"]
    parts, problem = [], ""
    if ring and box.height > ring:
        problem = f"has {box.height} rows in a line buffer of {ring}"
    if box.c + box.channels > channels:
        problem = f"has channels {box.c}..{box.c + box.channels - 1}, the tensor has {channels}"
    for first_block, blocks, first, width, is_ragged in _channel_parts(box, get["c0"], channels):
        row = get["last_row"] if is_ragged and get["last_row"] else get["row"]
        pixel = get["last_pixel"] if is_ragged and get["last_pixel"] else get["pixel"]
        for y, height in _row_parts(box, ring):
            start = get["base"] + box.n * get["batch"] + first_block * get["block"] + y * row + box.x * pixel
            axes = [(height, row), (box.width, pixel), (blocks, get["block"]), (width * each, 1)]
            if prefix == "ofm" and not visits_each_byte_once(axes):
                problem = "writes a byte twice"
            parts.append(lattice(start + first * each, axes))
    place = (channels, each, *(get[name] for name in sorted(get) if name not in ("zero_point", "type")))
    return Access(prefix, prefix == "ofm", tuple(parts), place, problem, each)


def _row_parts(box: _Box, ring: int) -> Iterator[tuple[int, int]]:
    """(first row in memory, rows) of the parts that do not wrap."""
    if not ring:
        yield box.y, box.height
        return
    y, left = box.y % ring, min(box.height, ring)
    while left:
        height = min(left, ring - y)
        yield y, height
        y, left = 0, left - height


def _channel_parts(box: _Box, c0: int, channels: int) -> Iterator[tuple[int, int, int, int, bool]]:
    """(first block, blocks, first channel in the block, channels of each, whether it is the ragged last block)."""
    c, stop = box.c, box.c + box.channels
    while c < stop:
        block, first = divmod(c, c0)
        is_ragged = block == channels // c0
        whole = 0 if first or is_ragged else min(stop // c0, channels // c0) - block
        width = c0 if whole > 0 else min(c0 - first, stop - c)
        blocks = max(whole, 1)
        yield block, blocks, first, width, is_ragged
        c += blocks * width
