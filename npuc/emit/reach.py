"""Which kernels are done when one of them is, and which have all their work with a parameter still before them.

An instruction starts when those have retired that wrote what it reads. So when the last element of a kernel is written,
all kernels are done of which it needs every element (`before`), and those that depend on any of its elements, whichever
is the last, have yet to run for what depends on it (`behind`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from isa.resize import positions
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.lower.operand import Operand

KEEPS_PIXELS = {
    "vec.add", "vec.sub", "vec.mul", "vec.table", "vec.sigmoid", "vec.tanh", "vec.maxpool", "vec.avgpool", "vec.mean",
    "vec.resize", "vec.bilinear",
}  # fmt: skip
"""Instructions that compute each channel from the same channel."""


class Hit(IntEnum):
    """What of a kernel's output depends on an element, wherever that is: some element, a pixel, all."""

    NONE = 0
    ELEMENT = 1
    PIXEL = 2
    """All channels of some pixel."""
    ALL = 3


@dataclass(frozen=True)
class Edge:
    """Another kernel reads what kernel number `source` writes, as the same pixels where `is_same`, as its second input
    where `is_second`; `is_all`: every element of it; `is_only`: every element that it reads there is from `source`."""

    source: int
    is_same: bool
    is_second: bool
    is_all: bool
    is_only: bool


def edges_of(kernels: Sequence[Kernel]) -> list[list[Edge]]:
    """What each kernel reads that others write."""
    writers: dict[str, list[int]] = {}
    result = []
    for i, kernel in enumerate(kernels):
        result.append(list(_edges(kernels, writers, kernel)))
        storage = kernel.ofm.storage
        if kernel.arm is not None:
            writers.pop(storage, None)  # which of its bytes still come from others is not known
        else:
            writers[storage] = [j for j in writers.get(storage, []) if not _holds(kernel.ofm, kernels[j].ofm)] + [i]
    return result


def _edges(kernels: Sequence[Kernel], writers: Mapping[str, list[int]], kernel: Kernel) -> Iterator[Edge]:
    for operand, is_second in ((kernel.ifm, False), (kernel.ifm2, True)):
        if kernel.arm is not None or operand is None or operand.storage == PARAMETERS:
            continue
        sources = writers.get(operand.storage, [])
        covers = is_second or _reads_all(kernel, operand)
        for j in sources:
            written = kernels[j].ofm
            is_only = len(sources) == 1 and _holds(written, operand) and (is_second or _reads_some(kernel))
            is_same = _record(operand) == _record(written)
            yield Edge(j, is_same, is_second, covers and _holds(operand, written), is_only)


def _reads_some(kernel: Kernel) -> bool:
    """Whether no window lies in the padding alone."""
    window = kernel.window
    reach = [(taps - 1) * step + 1 for taps, step in zip(window.kernel, window.dilation, strict=True)]
    return all(pad < reach[axis % 2] for axis, pad in enumerate(window.pads))


def _reads_all(kernel: Kernel, ifm: Operand) -> bool:
    """Whether every element of the first input is read for some output."""
    if kernel.mnemonic == "vec.mean":
        return True
    if kernel.mnemonic in ("vec.bilinear", "vec.resize"):
        return all(_resized(kernel, axis) == set(range(ifm.shape[1 + axis])) for axis in (0, 1))
    if kernel.mnemonic == "mac.conv" and sum(group.k_channels for group in kernel.groups) != ifm.shape[3]:
        return False
    window = kernel.window
    for axis in (0, 1):
        reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
        stride, pad = window.stride[axis], window.pads[axis]
        is_dense = stride == 1 or (window.dilation[axis] == 1 and stride <= reach)
        if not is_dense or (kernel.space[1 + axis] - 1) * stride - pad + reach < ifm.shape[1 + axis]:
            return False
    return kernel.is_mac or kernel.space[3] == ifm.shape[3]


def _resized(kernel: Kernel, axis: int) -> set[int]:
    """Rows (or pixels) of the input that a resize takes something of; of two neighbors it always takes the lower."""
    outputs, fields = range(kernel.space[1 + axis]), kernel.fields
    if kernel.mnemonic == "vec.resize":
        return {y // fields[("stride_h", "stride_w")[axis]] for y in outputs}
    names = (("multiplier_1", "mid_low"), ("multiplier_2", "mid_high"))[axis]
    limit = kernel.ifm.shape[1 + axis] if kernel.ifm is not None else 0
    return set(positions(outputs, fields[names[0]], fields[names[1]], limit).lower.tolist())


def _record(operand: Operand) -> tuple[object, ...]:
    """Which byte each element lies at."""
    return (
        operand.storage, operand.offset_bytes, operand.shape, operand.batch, operand.row, operand.pixel, operand.block,
        operand.c0, operand.element_bytes, operand.last_pixel, operand.last_row,
    )  # fmt: skip


def _holds(reader: Operand, writer: Operand) -> bool:
    """Whether the reader's bytes are known to hold all of the writer's."""
    if _record(reader) == _record(writer):
        return True
    inside = _dense_bytes(reader)
    spans = [span for n in range(writer.shape[0])
             for span in writer.span(n, range(writer.shape[1]), range(writer.shape[3]), 0)]  # fmt: skip
    return inside is not None and all(inside[0] <= low and high <= inside[1] for low, high in spans)


def _dense_bytes(operand: Operand) -> tuple[int, int] | None:
    """The bytes of an operand without holes, None when it may have some."""
    n, height, width, channels = operand.shape
    item = operand.element_bytes
    if operand.block and not operand.is_pixel_major:
        steps = [(width, operand.pixel, operand.c0 * item), (height, operand.row, operand.c0 * width * item)]
        is_dense = operand.block == operand.c0 * width * height * item and n == 1
        rest = channels % operand.c0 * item
        is_dense &= not rest or (operand.last_pixel in (rest, 0) and operand.last_row in (rest * width, 0))
        is_dense &= not rest or ((operand.last_pixel > 0 or width == 1) and (operand.last_row > 0 or height == 1))
    else:
        is_dense = not operand.last_pixel and not operand.last_row
        is_dense &= channels <= operand.c0 or operand.block == operand.c0 * item
        steps = [(width, operand.pixel, channels * item), (height, operand.row, channels * width * item)]
    steps.append((n, operand.batch, channels * width * height * item))
    if not is_dense or any(count > 1 and step != full for count, step, full in steps):
        return None
    return operand.offset_bytes, operand.offset_bytes + n * height * width * channels * item


def before(edges: Sequence[Sequence[Edge]]) -> npt.NDArray[np.bool_]:
    """[kernels, kernels]: which are done when each one is, itself among them."""
    found = np.eye(len(edges), dtype=bool)
    for i, sources in enumerate(edges):
        for edge in sources:
            if edge.is_all:
                found[i] |= found[edge.source]
    return found


@dataclass(frozen=True)
class Demand:
    """What each element of a kernel, whichever it is, needs: `touched` [kernels]: some element of these; `element`:
    all weights of these; `pixel`: all weights of these where it is all channels of a pixel."""

    touched: npt.NDArray[np.bool_]
    element: npt.NDArray[np.bool_]
    pixel: npt.NDArray[np.bool_]


def demands_of(kernels: Sequence[Kernel], edges: Sequence[Sequence[Edge]]) -> list[Demand]:
    """By kernel. Every window of a dense convolution reads all channels, so all weights of what wrote them."""
    found: list[Demand] = []
    for i, kernel in enumerate(kernels):
        own = np.arange(len(kernels)) == i
        touched, element, pixel = own.copy(), np.zeros_like(own), own & kernel.is_mac
        for edge in edges[i]:
            if not edge.is_only:
                continue
            source = found[edge.source]
            is_whole = edge.is_all and kernel.is_mac and kernel.space[:3] == (1, 1, 1)
            of_pixel = source.pixel if edge.is_same or is_whole else source.element
            touched |= source.touched
            element |= of_pixel if _mixes_channels(kernel, edge) else source.element
            pixel |= source.element if kernel.mnemonic == "vec.copy" else of_pixel
        found.append(Demand(touched, element, pixel))
    return found


def _mixes_channels(kernel: Kernel, edge: Edge) -> bool:
    """Whether each output depends on all channels of a pixel."""
    if kernel.mnemonic == "mac.conv" and not edge.is_second and kernel.ifm is not None:
        return [group.k_channels for group in kernel.groups] == [kernel.ifm.shape[3]]
    return kernel.mnemonic == "vec.softmax"


def behind(kernels: Sequence[Kernel], edges: Sequence[Sequence[Edge]], last: int) -> dict[int, tuple[Hit, Hit]]:
    """By kernel that depends on each element of kernel `last`, whichever it is: what of its inputs does, and of its
    output."""
    hits = {last: (Hit.ELEMENT, Hit.ELEMENT)}
    for i in range(last + 1, len(kernels)):
        found = [(_seen(edge, hits[edge.source][1]), edge) for edge in edges[i] if edge.is_all and edge.source in hits]
        ways = [(_needed(kernels[i], hit, edge), _spread(kernels[i], hit, edge)) for hit, edge in found]
        if any(out for _, out in ways):
            hits[i] = max(need for need, _ in ways), max(out for _, out in ways)
    return hits


def _seen(edge: Edge, hit: Hit) -> Hit:
    """What is hit for a reader that may see other pixels."""
    return hit if edge.is_same or hit == Hit.ALL else Hit.ELEMENT


def _needed(kernel: Kernel, hit: Hit, edge: Edge) -> Hit:
    """PIXEL: all weights are needed; ALL: the whole kernel has yet to run."""
    return max(hit, Hit.PIXEL) if kernel.is_mac and _mixes_channels(kernel, edge) else hit


def _spread(kernel: Kernel, hit: Hit, edge: Edge) -> Hit:
    """What of the output is hit."""
    name = kernel.mnemonic
    if name == "vec.copy":
        return hit if hit == Hit.ALL else Hit.ELEMENT
    if _mixes_channels(kernel, edge):
        hit = max(hit, Hit.PIXEL)
    elif not (kernel.is_mac or name in KEEPS_PIXELS):
        return Hit.NONE
    n, height, width, _ = kernel.space
    return Hit.ALL if hit == Hit.PIXEL and n * height * width == 1 else hit
