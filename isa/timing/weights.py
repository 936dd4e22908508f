"""SRAM words of raw weights: [group of output channels][kernel_h][kernel_w][k][lanes], read chunk by chunk.

With one chunk the weights of a block of output channels follow each other. With several, a chunk has a piece of each
tap of each group, and pieces that meet inside a word read it twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isa.timing.geometry import Ints, Operand, operand_words, plain_span, run_words
from isa.timing.layer import Layer


class _Input(NamedTuple):
    """Taps and input channels of some instructions."""

    taps: Ints
    first: Ints
    channels: Ints
    c0: Ints

    @classmethod
    def of(cls, layer: Layer, index: Ints) -> _Input:
        return cls(layer.taps[index], layer.k[index], layer.k_channels[index], layer.ifm.c0[index])


def block_words(address: Ints, layer: Layer, outputs: Ints, lanes: int) -> Ints:
    """Words of all chunks [n] of a block of `outputs` channels whose weights begin at `address`."""
    words = run_words(address, outputs * layer.channel_weights)
    rest = outputs % lanes
    index = _uneven(address, layer, rest)
    if not len(index):
        return words
    part, groups, rest = _Input.of(layer, index), outputs[index] // lanes, rest[index]
    tail = address[index] + groups * lanes * part.taps * part.channels
    full = _pieces(address[index], part, np.full_like(rest, lanes), groups, part.channels)
    words[index] = full + _pieces(tail, part, np.maximum(rest, 1), np.minimum(rest, 1), part.channels)
    return words


def chunk_words(address: Ints, layer: Layer, width: Ints, inputs: Ints) -> Ints:
    """Words of the first chunk [n]: `inputs` channels of the first group, which is `width` outputs wide."""
    words = run_words(address, np.where(layer.is_depthwise, 1, width) * layer.taps * inputs)
    index = _uneven(address, layer, width)
    if len(index):
        one = np.ones_like(index)
        words[index] = _pieces(address[index], _Input.of(layer, index), width[index], one, inputs[index])
    return words


def _uneven(address: Ints, layer: Layer, width: Ints) -> Ints:
    """Instructions with several chunks whose pieces may meet inside a word."""
    several = ~layer.is_depthwise.astype(bool) & (layer.chunks(layer.channels.first, layer.channels.full) > 1)
    return np.flatnonzero(several & ((address | width * layer.k_channels) & 7 != 0))


def _pieces(address: Ints, part: _Input, width: Ints, groups: Ints, inputs: Ints) -> Ints:
    """Words of every piece: taps are rows, groups are pixels, and input channels are channels of `width` bytes."""
    zero, run = np.zeros_like(address), part.c0 * width
    skipped = part.first % part.c0 * width
    tap = width * part.channels
    operand = Operand(address - skipped, tap * part.taps, tap, run, zero, zero, np.ones_like(address), run, zero)
    rows, pixels = plain_span(zero, part.taps), plain_span(zero, groups)
    return operand_words(operand, rows, pixels, skipped, inputs * width, run)
