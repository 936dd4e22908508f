"""The shape of MAC instructions: output blocks, and the chunks in which their input and weights come."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isa.instructions import BY_MNEMONIC
from isa.timing.geometry import Axis, Ints, Operand, Span, window_span
from isa.timing.record import Rows

_DEPTHWISE = BY_MNEMONIC["mac.depthwise"].opcode


@dataclass(frozen=True)
class Layer:
    """The fields of a group of MAC instructions that more than one formula reads."""

    rows: Axis
    pixels: Axis
    channels: Axis
    is_depthwise: Ints
    is_one_chunk: Ints
    """Coded weights, which come in another order than chunks of a channel block would need them."""
    kernel_h: Ints
    kernel_w: Ints
    k: Ints
    k_channels: Ints
    ifm: Operand

    @property
    def n_pixel_blocks(self) -> Ints:
        return self.rows.count * self.pixels.count

    @property
    def taps(self) -> Ints:
        return self.kernel_h * self.kernel_w

    @property
    def channel_weights(self) -> Ints:
        """Weights of one output channel."""
        return self.taps * np.where(self.is_depthwise, 1, self.k_channels)


def layer_of(f: Rows) -> Layer:
    """The shape of the instructions `f`."""
    rows, pixels, channels = f.axes()
    is_depthwise = f("opcode") == _DEPTHWISE
    return Layer(
        rows, pixels, channels, is_depthwise, np.zeros_like(is_depthwise), f("kernel_h"), f("kernel_w"),
        f("k"), f("k_channels"), f.operand("ifm", "ifm_channels"),
    )  # fmt: skip


def input_spans(f: Rows, rows: Axis, pixels: Axis) -> tuple[Span, Span]:
    """Input rows and pixels that these blocks need."""
    return (
        window_span(rows, f("stride_h"), f("kernel_h"), f("dilation_h"), f("pad_top"), f("ifm_height")),
        window_span(pixels, f("stride_w"), f("kernel_w"), f("dilation_w"), f("pad_left"), f("ifm_width")),
    )


def first_block(axis: Axis) -> Axis:
    """The axis with its first block alone."""
    return replace(axis, extent=axis.full, last=axis.full, count=np.ones_like(axis.count))
