"""Distinct aligned 8-byte words that accesses touch, counted one access after the other from exact addresses."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from isa.descriptors import ElementType, Memory, split_address
from tests.stepped.jit import compiled

WORD = 8


class Operand(NamedTuple):
    """The access record of a tensor; `base` is the byte offset in its memory."""

    base: int
    pixel: int
    row: int
    block: int
    batch: int
    last_pixel: int
    last_row: int
    ring: int
    c0: int
    element_bytes: int
    channels: int


class Span(NamedTuple):
    """Positions on one axis: `groups` runs of `length`, `stride` apart, those outside [0, limit) left out."""

    first: int
    groups: int
    stride: int
    length: int
    limit: int


ELEMENT_BYTES = {ElementType.INT8: 1, ElementType.UINT8: 1, ElementType.INT16: 2, ElementType.INT32: 4}


def operand(layer: Mapping[str, int], prefix: str) -> tuple[Memory, Operand]:
    """Memory and record of the operand with this prefix."""
    memory, base = split_address(layer[f"{prefix}_base"])
    strides = (layer[f"{prefix}_{name}"] for name in Operand._fields[1:9])
    channels = layer["ifm_channels" if prefix == "ifm" else "ofm_channels"]
    return memory, Operand._make([base, *strides, ELEMENT_BYTES[ElementType(layer[f"{prefix}_type"])], channels])


def plain(first: int, length: int) -> Span:
    """All positions from `first` on."""
    return Span(first, 1, 1, length, first + length)


def window(layer: Mapping[str, int], axis: str, first: int, n: int) -> Span:
    """Input positions of the windows of n outputs from `first` on; axis "h" or "w"."""
    pad, limit = (layer["pad_top"], layer["ifm_height"]) if axis == "h" else (layer["pad_left"], layer["ifm_width"])
    stride = layer[f"stride_{axis}"]
    reach = (layer[f"kernel_{axis}"] - 1) * layer[f"dilation_{axis}"] + 1
    if stride > reach:
        return Span(first * stride - pad, n, stride, reach, limit)
    return Span(first * stride - pad, 1, stride, (n - 1) * stride + reach, limit)


@compiled
def run_words(first: int, length: int) -> int:
    """Words of one contiguous run of bytes."""
    return (first % WORD + length + WORD - 1) // WORD


@compiled
def region_words(tensor: Operand, n: int, rows: Span, pixels: Span, start: int, stop: int) -> int:
    """Words of channels start..stop-1: one access for each pixel and channel block."""
    words = 0
    channel = start
    while channel < stop:
        block = channel // tensor.c0
        end = min(stop, (block + 1) * tensor.c0)
        pixel, row = tensor.pixel, tensor.row
        if block == tensor.channels // tensor.c0 and tensor.channels % tensor.c0:
            pixel = tensor.last_pixel if tensor.last_pixel else pixel
            row = tensor.last_row if tensor.last_row else row
        length = (end - channel) * tensor.element_bytes
        base = tensor.base + n * tensor.batch + block * tensor.block + (channel % tensor.c0) * tensor.element_bytes
        for row_group in range(rows.groups):
            top = rows.first + row_group * rows.stride
            for y in range(max(0, top), min(rows.limit, top + rows.length)):
                line = base + (y % tensor.ring if tensor.ring else y) * row
                for pixel_group in range(pixels.groups):
                    left = pixels.first + pixel_group * pixels.stride
                    for x in range(max(0, left), min(pixels.limit, left + pixels.length)):
                        words += ((line + x * pixel) % WORD + length + WORD - 1) // WORD
        channel = end
    return words


def pieces(start: int, stop: int, c0: int) -> list[tuple[int, int]]:
    """A channel range, cut at multiples of c0."""
    edges = [start, *range((start // c0 + 1) * c0, stop, c0), stop]
    return list(pairwise(edges))
