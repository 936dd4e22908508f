"""The instruction table: every instruction of the machine, its queue and its fields, as the manual prints them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from isa.descriptors import DMA, LAYER
from isa.fields import Field, RecordSpec


class Queue(IntEnum):
    """Queues whose retired instructions are counted; FETCH executes at dispatch and has no counter."""

    DMA_IN = 0
    DMA_OUT = 1
    MAC = 2
    VEC = 3
    ARM = 4
    FETCH = 5


NO_CONDITION = 7
"""Queue number of an unused condition."""

CONDITIONS = 3
"""Conditions in the header of an instruction."""


def _conditions(prefix: str) -> tuple[Field, ...]:
    pairs = []
    for i in range(CONDITIONS):
        pairs.append(Field(f"{prefix}{i}_queue", 3, "queue of the condition; 7: none", unit="queue"))
        pairs.append(Field(f"{prefix}{i}_count", 16, "holds once the queue has retired this many", unit="instruction"))
    return tuple(pairs)


HEADER = (Field("opcode", 7, "opcode"), *_conditions("wait"))

_REGION = (
    Field("slot", 5, "descriptor", unit="slot"),
    Field("n", 11, "batch entry", unit="entry"),
    Field("y", 16, "first output row", unit="row"),
    Field("x", 16, "first output pixel of a row", unit="pixel"),
    Field("c", 16, "first output channel", unit="channel"),
    Field("height", 16, "output rows", unit="row", bias=1),
    Field("width", 16, "output pixels of a row", unit="pixel", bias=1),
    Field("channels", 16, "output channels", unit="channel", bias=1),
)
_WEIGHTS = (
    Field("k", 16, "first input channel", unit="channel"),
    Field("k_channels", 16, "input channels summed", unit="channel", bias=1),
    Field("weights", 32, "packed weights of these output channels", unit="address"),
    Field("coded_words", 16, "8-byte words of the coded weights; 0: raw", unit="word", is_optional=True),
)


@dataclass(frozen=True)
class InstructionSpec:
    """One instruction: fields behind the common header, the queue it waits in, the descriptor it captures."""

    mnemonic: str
    opcode: int
    queue: Queue
    length_bytes: int
    doc: str
    fields: tuple[Field, ...]
    descriptor: RecordSpec | None = None

    @cached_property
    def record(self) -> RecordSpec:
        """All fields as they are stored: the common header, then those of the instruction."""
        return RecordSpec(self.mnemonic, self.doc, self.length_bytes, (*HEADER, *self.fields))


def _mac(mnemonic: str, opcode: int, doc: str) -> InstructionSpec:
    return InstructionSpec(mnemonic, opcode, Queue.MAC, 32, doc, (*_REGION, *_WEIGHTS), LAYER)


def _vec(mnemonic: str, opcode: int, doc: str) -> InstructionSpec:
    return InstructionSpec(mnemonic, opcode, Queue.VEC, 24, doc, _REGION, LAYER)


_COPY = (
    Field("source", 32, "first byte read", unit="address"),
    Field("destination", 32, "first byte written", unit="address"),
)
_LENGTH = Field("length", 24, "bytes copied", unit="byte", bias=1)
_SLOT = _REGION[0]

INSTRUCTIONS = (
    InstructionSpec(
        "end", 0x01, Queue.FETCH, 8, "Ends the program; it is complete when every queue has drained.", ()
    ),
    InstructionSpec(
        "desc.load", 0x02, Queue.FETCH, 16,
        "Load a descriptor from flash into a slot of the table; words that are not loaded are zero. "
        "Instructions capture their descriptor at dispatch, so a slot may be rewritten at once.",
        (_SLOT, Field("words", 6, "8-byte words", unit="word", bias=1),
         Field("address", 32, "first byte of the descriptor", unit="address")),
    ),
    *(
        InstructionSpec(
            f"wait.{queue.name.lower().replace('_', '-')}", 0x08 + queue, queue, 16,
            "Occupy the queue until up to six conditions hold; retires like any instruction.", _conditions("more"),
        )
        for queue in (Queue.DMA_IN, Queue.DMA_OUT, Queue.MAC, Queue.VEC)
    ),
    InstructionSpec(
        "dma.load", 0x10, Queue.DMA_IN, 24, "Copy contiguous bytes from flash or dram to sram.", (*_COPY, _LENGTH)
    ),
    InstructionSpec(
        "dma.load4", 0x11, Queue.DMA_IN, 24, "Copy a four-dimensional region from flash or dram to sram.",
        (_SLOT, *_COPY), DMA,
    ),
    InstructionSpec(
        "dma.store", 0x14, Queue.DMA_OUT, 24, "Copy contiguous bytes from sram to sram or dram.", (*_COPY, _LENGTH)
    ),
    InstructionSpec(
        "dma.store4", 0x15, Queue.DMA_OUT, 24, "Copy a four-dimensional region from sram to sram or dram.",
        (_SLOT, *_COPY), DMA,
    ),
    InstructionSpec(
        "dma.fill", 0x16, Queue.DMA_OUT, 24, "Fill a four-dimensional region of sram or dram with one byte.",
        (_SLOT, _COPY[1], Field("value", 8, "byte written")), DMA,
    ),
    _mac("mac.conv", 0x20,
         "Convolve input channels k..k+k_channels-1 into the output region and run the output stage. "
         "Weights: [channels / L][kernel_h][kernel_w][k_channels][L], L = cout_lanes of the target, "
         "the last group holding only the lanes that exist. Coded, they decode to this (docs/weight-codec.md)."),
    _mac("mac.depthwise", 0x21,
         "Convolve each channel with its own kernel and run the output stage. Input channel = output channel; "
         "k and k_channels are zero-origin and 1. Weights: [channels / L][kernel_h][kernel_w][L]."),
    _vec("vec.add", 0x30, "Rescaled addition of two tensors (TensorFlow Lite Micro's ADD)."),
    _vec("vec.sub", 0x31, "Rescaled subtraction of two tensors (TensorFlow Lite Micro's SUB)."),
    _vec("vec.mul", 0x32, "Rescaled product of two tensors (TensorFlow Lite Micro's MUL)."),
    _vec("vec.table", 0x34, "Map each element through a 256-byte table."),
    _vec("vec.sigmoid", 0x35, "Sigmoid of int16 elements with 12 fractional bits, as int16 with 15 fractional bits."),
    _vec("vec.tanh", 0x36, "Tanh of int16 elements with `left_shift` integer bits, as int16 with 15 fractional bits."),
    _vec("vec.maxpool", 0x38, "Largest value of each window; taps outside the input do not count."),
    _vec("vec.avgpool", 0x39, "Rounded mean of each window (TensorFlow Lite Micro's AVERAGE_POOL_2D)."),
    _vec("vec.mean", 0x3A, "Rescaled mean over all rows and pixels of the input (TensorFlow Lite Micro's MEAN)."),
    _vec("vec.softmax", 0x3C, "Softmax over the channels of each pixel (TensorFlow Lite Micro's SOFTMAX)."),
    _vec("vec.resize", 0x3D, "Repeat each pixel stride_h x stride_w times."),
    _vec("vec.bilinear", 0x3F,
         "Bilinear interpolation: row y reads input row y * multiplier_1 + mid_low, pixel x input pixel "
         "x * multiplier_2 + mid_high, both in 1/1024 (TensorFlow Lite's RESIZE_BILINEAR)."),
    _vec("vec.copy", 0x3E, "Copy between two access patterns (layout conversion)."),
)  # fmt: skip

BY_MNEMONIC = {spec.mnemonic: spec for spec in INSTRUCTIONS}
BY_OPCODE = {spec.opcode: spec for spec in INSTRUCTIONS}
