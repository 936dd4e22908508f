"""The kernels' calling convention, written once: ids, versions and parameter records. The C header is generated.

A parameter record is a sequence of little-endian 32-bit signed words, 4-byte aligned, so the same bytes serve the host,
Cortex-M and aarch64. Addresses are a memory and a byte offset from that memory's base; strides are bytes.
"""

from __future__ import annotations

import struct
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

GATHER_AXES = 8
"""Axes that one index of a `gather_nd` may select from."""

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
PAIR = tuple(field.name for field in _PAIR)
"""Fields of the tensors of a kernel with two operands."""

_CLAMP = (Field("low", "int32", "smallest output"), Field("high", "int32", "largest output"))
_WIDTHS = tuple(
    Field(f"{name}_bytes", "int32", "1: int8, 2: int16; shifted left by at most 15 if 2" if i < 2 else "1 or 2")
    for i, name in enumerate(("first", "second", "y"))
)
_FLOAT = "bits of a float32"
_ZERO_POINTS = (Field("input_zero_point", "int32", ""), Field("output_zero_point", "int32", ""))

KERNELS: tuple[KernelSpec, ...] = (
    KernelSpec("conv2d", 1, 2, "Convolution with the whole output stage.", (
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
        Field("y_bytes", "int32", "1: y holds int8; 2: int16, with neither table nor residual"),
    )),
    KernelSpec("add", 2, 2, "Rescaled sum or difference of two tensors.", (
        *_PAIR,
        *_WIDTHS,
        Field("subtract", "int32", "1: first - second"),
        Field("constants", "addition", ""),
    )),
    KernelSpec("mul", 3, 2, "Rescaled product of two tensors.", (
        *_PAIR,
        *_WIDTHS,
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
    KernelSpec("squash", 12, 1, "Sigmoid or tanh of int16 values by interpolation in a table.", (
        _X,
        _Y,
        Field("function", "int32", "NPUC_SQUASH_..."),
        Field("integer_bits", "int32", "of x, 0 to 15; 3 for a sigmoid"),
    )),
    KernelSpec("lstm", 13, 1, "int8 LSTM over all steps; four gates: input, forget, candidate, output.", (
        Field("x", "tensor", "int8 [1, batch, step, input]"),
        Field("weights", "tensor", "int8 [1, 1, 4 * units, input]"),
        Field("recurrent", "tensor", "int8 [1, 1, 4 * units, units]"),
        Field("bias", "block", "int32[4 * units]"),
        Field("cell", "block", "int16[units], scratch"),
        Field("y", "tensor", "int8 [1, batch, step, units]"),
        Field("input_zero_point", "int32", ""),
        Field("hidden_zero_point", "int32", ""),
        Field("input_factor", "rescale", "of each gate", 4),
        Field("recurrent_factor", "rescale", "of each gate", 4),
        Field("forget", "rescale", "of forget gate times cell"),
        Field("update", "rescale", "of input gate times candidate"),
        Field("output", "rescale", "of output gate times tanh of the cell"),
        Field("cell_integer_bits", "int32", "0 to 15"),
        Field("cell_clip", "int32", "largest magnitude of a cell, 0: no limit"),
    )),
    KernelSpec("arg_max", 14, 1, "Position of the first largest element along an axis that is not one of x's.", (
        Field("x", "tensor", "element 0 of each row"),
        Field("y", "tensor", "int32 or int64"),
        Field("count", "int32", "elements of a row"),
        Field("step", "int32", "bytes from one element of a row to the next"),
        Field("x_kind", "int32", "NPUC_KIND_..."),
        Field("y_kind", "int32", "NPUC_KIND_INT32 or NPUC_KIND_INT64"),
    )),
    KernelSpec("index_arithmetic", 15, 1, "int32 arithmetic modulo 2^32; a quotient by 0 is 0.", (
        *_PAIR,
        Field("function", "int32", "NPUC_INDEX_..."),
    )),
    KernelSpec("gather_nd", 16, 1, "data[i0, i1, ...] for rows of int32 indices, clamped to the data.", (
        Field("data", "block", "element (0, 0, ...)"),
        Field("indices", "tensor", "the first index of each row"),
        Field("y", "tensor", "the first byte of what each row selects"),
        Field("depth", "int32", "indices of a row, 1 to NPUC_GATHER_AXES"),
        Field("index_step", "int32", "bytes from one index of a row to the next"),
        Field("limit", "int32", "elements of each indexed axis", GATHER_AXES),
        Field("stride", "int32", "bytes from one to the next in data", GATHER_AXES),
        Field("size", "int32", "of what a row selects, down to bytes", COPY_AXES),
        Field("source_stride", "int32", "", COPY_AXES),
        Field("destination_stride", "int32", "", COPY_AXES),
    )),
    KernelSpec("float_quantize", 17, 1, "float32 to integers: clamp(round(x / scale) + zero point); NaN as 0.", (
        _X,
        _Y,
        Field("scale", "int32", _FLOAT),
        Field("zero_point", "int32", ""),
        Field("y_kind", "int32", "NPUC_KIND_INT8, _UINT8 or _INT16"),
        Field("half_even", "int32", "1: halves to the even integer, 0: away from zero"),
    )),
    KernelSpec("float_dequantize", 18, 1, "Integers to float32: scale * (x - zero point).", (
        _X,
        _Y,
        Field("scale", "int32", _FLOAT),
        Field("zero_point", "int32", ""),
        Field("x_kind", "int32", "NPUC_KIND_INT8, _UINT8 or _INT16"),
    )),
    KernelSpec("to_float", 19, 1, "Integers as float32, rounded to nearest.", (
        _X,
        _Y,
        Field("x_kind", "int32", "NPUC_KIND_..., not _FLOAT32"),
    )),
    KernelSpec("float_unary", 20, 1, "A function of each float32.", (
        _X,
        _Y,
        Field("function", "int32", "NPUC_UNARY_..."),
        Field("parameter", "int32", f"{_FLOAT}: attributes in their order; bounds of a clip", 2),
    )),
    KernelSpec("float_binary", 21, 1, "Arithmetic on two float32 tensors.", (
        *_PAIR,
        Field("function", "int32", "NPUC_BINARY_..."),
    )),
    KernelSpec("float_softmax", 22, 1, "Softmax, or its logarithm, along an axis that is not one of the tensors'.", (
        Field("x", "tensor", "element 0 of each row"),
        Field("y", "tensor", "element 0 of each row"),
        Field("count", "int32", "elements of a row"),
        Field("x_step", "int32", "bytes from one element of a row to the next"),
        Field("y_step", "int32", ""),
        Field("is_log", "int32", "1: logarithm of the softmax"),
    )),
    KernelSpec("float_conv2d", 23, 1, "float32 convolution; padding counts as zero.", (
        _X,
        Field("weights", "tensor", ""),
        Field("bias", "block", "float32[oc]"),
        _Y,
        Field("window", "window", ""),
        Field("groups", "int32", ""),
    )),
    KernelSpec("float_pool", 24, 1, "Largest float32 of each window, or the mean of it.", (
        _X,
        _Y,
        Field("window", "window", ""),
        Field("function", "int32", "NPUC_POOL_..."),
        Field("include_pad", "int32", "1: padding counts as zeros in a mean"),
    )),
    KernelSpec("float_matmul", 25, 1, "Products of float32 matrices, axes [batch, batch, row, column].", (
        *_PAIR,
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


def float_bits(value: float) -> int:
    """The word that stands for a float32 in a record; OverflowError when it is too large to be one."""
    word: int = struct.unpack("<i", struct.pack("<f", value))[0]
    return word


def _flatten(value: Value) -> list[int]:
    if isinstance(value, Sequence):
        return [word for item in value for word in _flatten(item)]
    return [int(value)]
