"""The kernels' calling convention, written once: ids, versions and parameter records. The C header is generated.

A parameter record is a sequence of little-endian 32-bit signed words, 4-byte aligned, so the same bytes serve the host,
Cortex-M and aarch64. Addresses are a memory and a byte offset from that memory's base; strides are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

ABSENT, SRAM, FLASH = 0, 1, 2
"""Memories. An operand in memory ABSENT is not there."""

COPY_AXES = 8
"""Axes of a `copy`, the bytes of an element included."""

TENSOR_AXES = 4

MAX_LEFT_SHIFT = 23
"""Of an addition: 255 * 2^23 < 2^31."""

STATUS = (
    ("NPUC_KERNEL_OK", 0, "the output is written"),
    ("NPUC_KERNEL_BAD_PARAMETERS", 1, "a parameter has no meaning; nothing is written"),
)


@dataclass(frozen=True)
class Field:
    """One member of a record: `kind` is `int32` or a name of RECORDS; `count` > 1 makes an array of it."""

    name: str
    kind: str
    doc: str
    count: int = 1


@dataclass(frozen=True)
class KernelSpec:
    """A kernel; its version changes when the meaning of its record does."""

    name: str
    kernel_id: int
    version: int
    doc: str
    fields: tuple[Field, ...]


RECORDS: dict[str, tuple[str, tuple[Field, ...]]] = {
    "block": (
        "Where an array begins.",
        (
            Field("memory", "int32", "NPUC_ABSENT, NPUC_SRAM or NPUC_FLASH"),
            Field("offset", "int32", "bytes from the base of the memory"),
        ),
    ),
    "tensor": (
        "A tensor with axes n, c, h, w, or for weights oc, ic / groups, kh, kw.",
        (
            Field("at", "block", "element (0, 0, 0, 0)"),
            Field("size", "int32", "elements", TENSOR_AXES),
            Field("stride", "int32", "bytes from one element to the next; 0 repeats the element", TENSOR_AXES),
        ),
    ),
    "rescale": (
        "The factor multiplier / 2^shift.",
        (Field("multiplier", "int32", "0 to 2^31 - 1"), Field("shift", "int32", "2 to 62")),
    ),
    "window": (
        "A window that slides over rows (first) and columns (second).",
        (
            Field("kernel", "int32", "taps", 2),
            Field("stride", "int32", "pixels from window to window", 2),
            Field("dilation", "int32", "pixels from tap to tap", 2),
            Field("pad", "int32", "pixels before the first row and column", 2),
        ),
    ),
    "addition": (
        "Constants of a rescaled sum.",
        (
            Field("left_shift", "int32", f"0 to {MAX_LEFT_SHIFT}"),
            Field("first", "rescale", "of the first operand"),
            Field("second", "rescale", "of the second operand"),
            Field("result", "rescale", "of the sum"),
            Field("first_zero_point", "int32", ""),
            Field("second_zero_point", "int32", ""),
            Field("output_zero_point", "int32", ""),
            Field("low", "int32", "smallest output"),
            Field("high", "int32", "largest output"),
        ),
    ),
}

_X, _Y = Field("x", "tensor", "input"), Field("y", "tensor", "output")
_PAIR = (Field("first", "tensor", "operand"), Field("second", "tensor", "operand"), _Y)
_CLAMP = (Field("low", "int32", "smallest output"), Field("high", "int32", "largest output"))
_ZERO_POINTS = (Field("input_zero_point", "int32", ""), Field("output_zero_point", "int32", ""))

KERNELS: tuple[KernelSpec, ...] = (
    KernelSpec("conv2d", 1, 1, "Convolution with the whole output stage.", (
        _X,
        Field("weights", "tensor", "int8"),
        Field("bias", "block", "int32[oc]"),
        Field("scales", "block", "rescale[oc]"),
        Field("table", "block", "int8[256], or absent"),
        Field("other", "tensor", "int8 residual operand, or absent"),
        _Y,
        Field("window", "window", ""),
        Field("groups", "int32", ""),
        Field("is_unsigned", "int32", "1: x holds uint8"),
        Field("double_round", "int32", "1: double rounding, 0: single"),
        *_ZERO_POINTS,
        Field("weight_zero_point", "int32", "of all weights"),
        *_CLAMP,
        Field("residual", "addition", "its first operand is what the table gives"),
    )),
    KernelSpec("add", 2, 1, "Rescaled sum or difference of two int8 tensors.", (
        *_PAIR,
        Field("subtract", "int32", "1: first - second"),
        Field("constants", "addition", ""),
    )),
    KernelSpec("mul", 3, 1, "Rescaled product of two int8 tensors.", (
        *_PAIR,
        Field("first_zero_point", "int32", ""),
        Field("second_zero_point", "int32", ""),
        Field("output_zero_point", "int32", ""),
        Field("factor", "rescale", ""),
        *_CLAMP,
    )),
    KernelSpec("table", 4, 1, "table[x - smallest value of its type] of each byte.", (
        _X,
        Field("table", "block", "byte[256]"),
        _Y,
        Field("is_unsigned", "int32", "1: x holds uint8, 0: int8"),
    )),
    KernelSpec("max_pool", 5, 1, "Largest int8 value in each window.", (
        _X,
        _Y,
        Field("window", "window", ""),
        *_CLAMP,
    )),
    KernelSpec("average_pool", 6, 1, "Rounded mean of the stored int8 values in each window.", (
        _X,
        _Y,
        Field("window", "window", ""),
        Field("include_pad", "int32", "1: padding counts and holds the zero point"),
        Field("input_zero_point", "int32", ""),
        Field("halves_up", "int32", "1: halves towards plus infinity, 0: away from zero"),
        *_CLAMP,
    )),
    KernelSpec("mean", 7, 1, "Mean of int8 values over rows and columns.", (
        _X,
        _Y,
        Field("factor", "rescale", "from input to output scale"),
        *_ZERO_POINTS,
        *_CLAMP,
    )),
    KernelSpec("softmax", 8, 1, "int8 softmax along one axis; output scale 1/256, zero point -128.", (
        _X,
        _Y,
        Field("multiplier", "int32", ""),
        Field("left_shift", "int32", "0 to 31"),
        Field("axis", "int32", "0 to 3"),
    )),
    KernelSpec("resize", 9, 1, "Each pixel repeated: nearest neighbor with whole factors.", (
        _X,
        _Y,
        Field("factor", "int32", "rows, columns", 2),
        Field("item_bytes", "int32", "bytes of an element"),
    )),
    KernelSpec("resize_bilinear", 11, 1, "Bilinear interpolation of int8 images, 10 fractional bits.", (
        _X,
        _Y,
        Field("align_corners", "int32", "1: corner pixels map to corner pixels"),
        Field("half_pixel_centers", "int32", "1: positions are those of pixel centers"),
    )),
    KernelSpec("copy", 10, 1, "Strided copy of bytes; a source stride of 0 fills.", (
        Field("source", "block", ""),
        Field("destination", "block", ""),
        Field("size", "int32", "outermost axis first", COPY_AXES),
        Field("source_stride", "int32", "", COPY_AXES),
        Field("destination_stride", "int32", "", COPY_AXES),
    )),
)  # fmt: skip

KERNEL = {spec.name: spec for spec in KERNELS}

Value = int | Sequence["Value"]


def encode_parameters(spec: KernelSpec, values: Mapping[str, Value]) -> bytes:
    """The record of `spec`: `values` by field name, nested as the records are, in the order of their fields.

    ValueError: a field is missing, unknown, or has another number of words.
    """
    names = [field.name for field in spec.fields]
    if set(names) != set(values):
        raise ValueError(f"kernel {spec.name} takes {', '.join(names)}; got {', '.join(values)}")
    words: list[int] = []
    for field in spec.fields:
        flat = _flatten(values[field.name])
        if len(flat) != n_words(field):
            raise ValueError(f"{spec.name}.{field.name} has {len(flat)} words, need {n_words(field)}")
        words += flat
    return np.asarray(words, "<i4").tobytes()


def n_words(field: Field) -> int:
    """32-bit words of a field."""
    if field.kind == "int32":
        return field.count
    return field.count * sum(map(n_words, RECORDS[field.kind][1]))


def _flatten(value: Value) -> list[int]:
    if isinstance(value, Sequence):
        return [word for item in value for word in _flatten(item)]
    return [int(value)]
