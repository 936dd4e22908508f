"""Descriptor tables: what a layer keeps constant. Trailing zero words of a descriptor need not be stored.

An address is 32 bits: bits 31..30 select the memory (0 flash, 1 sram, 2 dram), bits 29..0 are a byte offset, in flash
from the start of the program's container, in sram and dram from the base of the program's arena.
"""

from __future__ import annotations

from enum import IntEnum

from isa.fields import Field, RecordSpec

DESCRIPTOR_SLOTS = 32
"""Entries of the on-chip descriptor table."""


class Memory(IntEnum):
    """Memory selected by the two upper bits of an address."""

    FLASH = 0
    SRAM = 1
    DRAM = 2


class ElementType(IntEnum):
    """Element type of a tensor operand."""

    INT8 = 0
    UINT8 = 1
    INT16 = 2
    INT32 = 3


def address(memory: Memory, offset_bytes: int) -> int:
    """The 32-bit address of byte `offset_bytes` of `memory`."""
    if not 0 <= offset_bytes < 1 << 30:
        raise ValueError(f"offset {offset_bytes} outside the 30-bit range of an address")
    return int(memory) << 30 | offset_bytes


def split_address(value: int) -> tuple[Memory, int]:
    """Memory and byte offset of a 32-bit address; ValueError for the reserved memory 3."""
    return Memory(value >> 30), value & ((1 << 30) - 1)


def tensor_fields(prefix: str, role: str) -> tuple[Field, ...]:
    """The 24-byte access record of one tensor operand.

    Element (n, y, x, c) of a tensor with `channels` channels lies, with b = c // c0, j = c % c0, at
    base + n * batch + b * block + r * row + x * pixel + j * element size, where r = y % ring (y when ring is 0).
    In the ragged last block (b == channels // c0, channels % c0 != 0) `last_row` and `last_pixel` replace `row` and
    `pixel` when they are not zero. A stride of zero repeats the same element (broadcast).
    """
    return (
        Field(f"{prefix}_base", 32, f"address of element (0, 0, 0, 0) of the {role}", unit="address"),
        Field(f"{prefix}_pixel", 16, "distance of neighbouring pixels of a row", unit="byte"),
        Field(f"{prefix}_row", 24, "distance of neighbouring rows", unit="byte"),
        Field(f"{prefix}_block", 24, "distance of neighbouring channel blocks", unit="byte"),
        Field(f"{prefix}_batch", 24, "distance of neighbouring batch entries", unit="byte"),
        Field(f"{prefix}_last_pixel", 8, "pixel distance in the ragged last block; 0: as in the others", unit="byte"),
        Field(f"{prefix}_last_row", 24, "row distance in the ragged last block; 0: as in the others", unit="byte"),
        Field(f"{prefix}_ring", 16, "rows of the line buffer; 0: no ring", unit="row"),
        Field(f"{prefix}_zero_point", 16, "value that stands for zero", signed=True),
        Field(f"{prefix}_type", 2, "ElementType"),
        Field(f"{prefix}_c0", 6, "channels of a block", unit="channel", bias=1),
    )


LAYER = RecordSpec(
    "layer",
    "Operands and constants of MAC and vector instructions.",
    128,
    (
        *tensor_fields("ofm", "output"),
        *tensor_fields("ifm", "input"),
        Field("ifm_height", 16, "rows of the input; taps outside read the zero point", unit="row"),
        Field("ifm_width", 16, "pixels of an input row", unit="pixel"),
        Field("ifm_channels", 16, "channels of the input (decides its ragged last block)", unit="channel"),
        Field("ofm_channels", 16, "channels of the output and of the second input", unit="channel"),
        Field("kernel_h", 8, "kernel height", unit="row", bias=1),
        Field("kernel_w", 8, "kernel width", unit="pixel", bias=1),
        Field("stride_h", 8, "vertical stride; vec.resize: vertical factor", unit="row", bias=1),
        Field("stride_w", 8, "horizontal stride; vec.resize: horizontal factor", unit="pixel", bias=1),
        Field("dilation_h", 8, "vertical distance of taps", unit="row", bias=1),
        Field("dilation_w", 8, "horizontal distance of taps", unit="pixel", bias=1),
        Field("pad_top", 8, "rows of padding above the input", unit="row"),
        Field("pad_left", 8, "pixels of padding left of the input", unit="pixel"),
        Field("block_h", 8, "rows of an output block", unit="row", bias=1),
        Field("block_w", 8, "pixels of a row of an output block", unit="pixel", bias=1),
        Field("block_c", 8, "channels of an output block, in units of 8", unit="8 channels", bias=1),
        Field("double_round", 1, "requantization rounds twice (gemmlowp's rule) instead of once"),
        Field("use_table", 1, "map the clamped int8 value through the 256-byte table"),
        Field("use_residual", 1, "add the second input in the output stage"),
        Field("scale_form", 2, "bytes of a record at `scales`: 0: 10, 1: 6, 2: 7, 3: 8"),
        Field("code_table", 3, "16-byte units of the weights' code table behind the scales; 0: no weights are coded"),
        Field("clamp_low", 16, "smallest output value", signed=True),
        Field("clamp_high", 16, "largest output value", signed=True),
        Field("scales", 32, "bias, multiplier and shift of every channel, in records of `scale_form`", unit="address"),
        Field("table", 32, "256-byte table, from the smallest value of the indexing type upwards", unit="address"),
        Field("multiplier_1", 32, "rescale of the first operand", signed=True),
        Field("multiplier_2", 32, "rescale of the second operand", signed=True),
        Field("multiplier_out", 32, "rescale of the result", signed=True),
        Field("shift_1", 8, "right shift of multiplier_1", unit="bit"),
        Field("shift_2", 8, "right shift of multiplier_2", unit="bit"),
        Field("shift_out", 8, "right shift of multiplier_out", unit="bit"),
        Field("left_shift", 6, "left shift of both operands before they are rescaled", unit="bit"),
        Field("count_pad", 1, "vec.avgpool divides by the whole window, padding included"),
        Field("halves_up", 1, "vec.avgpool rounds halves towards plus infinity instead of away from zero"),
        *tensor_fields("ifm2", "second input"),
        Field("mid_zero_point", 16, "residual: zero point of the requantized accumulator", signed=True),
        Field("mid_low", 16, "residual: smallest requantized accumulator", signed=True),
        Field("mid_high", 16, "residual: largest requantized accumulator", signed=True),
        Field("weight_zero_point", 16, "value that stands for zero in the weights of MAC instructions", signed=True),
    ),
)

SCALE = RecordSpec(
    "scale",
    "One output channel's constants in the table at `scales`, any values: `scale_form` 0.",
    10,
    (
        Field("bias", 32, "added to the accumulator", signed=True),
        Field("multiplier", 32, "requantization multiplier", signed=True),
        Field("shift", 8, "requantization right shift, 2..62", unit="bit"),
        Field("reserved", 8, "zero"),
    ),
)


def _short_scale(length_bytes: int) -> RecordSpec:
    form = length_bytes - 5
    return RecordSpec(
        f"scale-{length_bytes}",
        f"One output channel's constants with a normalized multiplier and a small bias: `scale_form` {form}.",
        length_bytes,
        (
            Field("multiplier", 30, "requantization multiplier", bias=1 << 30),
            Field("shift", 6, "requantization right shift, 2..62", unit="bit"),
            Field("bias", 8 * length_bytes - 36, "added to the accumulator", signed=True),
        ),
    )


SCALES = (SCALE, *map(_short_scale, (6, 7, 8)))
"""The records of a layer's constants by its `scale_form`."""

DMA = RecordSpec(
    "dma",
    "Sizes and strides of a four-dimensional copy; dimension 0 is the innermost and is contiguous on both sides.",
    28,
    (
        Field("size_0", 24, "bytes of a run", unit="byte", bias=1),
        Field("size_1", 16, "runs", unit="run", bias=1),
        Field("size_2", 16, "planes of runs", unit="plane", bias=1),
        Field("size_3", 16, "groups of planes", unit="group", bias=1),
        *(Field(f"source_{i}", 24, f"source distance in dimension {i}", unit="byte") for i in (1, 2, 3)),
        *(Field(f"destination_{i}", 24, f"destination distance in dimension {i}", unit="byte") for i in (1, 2, 3)),
    ),
)

DESCRIPTORS = (LAYER, DMA)
