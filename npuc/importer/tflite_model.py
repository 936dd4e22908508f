"""TFLite files as plain records: the only place that touches the flatbuffer, and the place that distrusts it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tflite

from npuc.errors import ImportFailure
from npuc.graph.types import Array, DType

STAGE = "import"

MAX_ITEMS = 1 << 16
"""Tensors, operators or buffers of a file."""

MAX_RANK = 8
MAX_ELEMENTS = 1 << 28
"""Elements of one tensor."""

MAX_CONSTANT_BYTES = 1 << 30
"""Bytes of all constant tensors together; tensors may share a buffer, their copies do not."""

DTYPES: dict[str, DType] = {"FLOAT32": "float32", "INT8": "int8", "UINT8": "uint8", "INT16": "int16", "INT32": "int32",
                            "INT64": "int64", "BOOL": "bool"}  # fmt: skip
"""TFLite's element types that the graph has, by its name for them."""

_WINDOW = ("Padding", "StrideH", "StrideW", "FusedActivationFunction")
_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CONV_2D": ("Conv2DOptions", (*_WINDOW, "DilationHFactor", "DilationWFactor")),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", (*_WINDOW, "DilationHFactor", "DilationWFactor")),
    "FULLY_CONNECTED": ("FullyConnectedOptions", ("FusedActivationFunction", "WeightsFormat")),
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "AVERAGE_POOL_2D": ("Pool2DOptions", (*_WINDOW, "FilterHeight", "FilterWidth")),
    "MAX_POOL_2D": ("Pool2DOptions", (*_WINDOW, "FilterHeight", "FilterWidth")),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "MUL": ("MulOptions", ("FusedActivationFunction",)),
    "DIV": ("DivOptions", ("FusedActivationFunction",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "PACK": ("PackOptions", ("Axis",)),
    "UNPACK": ("UnpackOptions", ("Axis",)),
    "STRIDED_SLICE": (
        "StridedSliceOptions",
        ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"),
    ),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ("AlignCorners", "HalfPixelCenters")),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", ("AlignCorners", "HalfPixelCenters")),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (
        "UnidirectionalSequenceLSTMOptions", ("FusedActivationFunction", "CellClip", "ProjClip", "TimeMajor"),
    ),
    "VAR_HANDLE": ("VarHandleOptions", ("SharedName",)),
    "CALL_ONCE": ("CallOnceOptions", ("InitSubgraphIndex",)),
}  # fmt: skip

Option = int | float | bool | str

_NAMES = {value: name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int)}
_TYPE_NAMES = {value: name for name, value in vars(tflite.TensorType).items() if isinstance(value, int)}
_FLATBUFFER_ERRORS = (struct.error, IndexError, TypeError, ValueError, OverflowError, AttributeError)
"""What the generated accessors raise when an offset or a length leaves the file."""


@dataclass(frozen=True)
class TfliteTensor:
    """One tensor in TFLite's axis order; `dtype` is TFLite's name, `data` is None for activations."""

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    data: Array | None


@dataclass(frozen=True)
class TfliteOperator:
    """One operator; inputs and outputs are tensor indices, -1 for an absent input."""

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option]

    @property
    def label(self) -> str:
        """Name in messages and in the sources of nodes."""
        return f"{self.kind}#{self.index}"


@dataclass(frozen=True)
class TfliteModel:
    """One subgraph of a file; the first one, which is the network, has the others as `subgraphs`."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    subgraphs: tuple[TfliteModel, ...] = ()


def read_tflite(data: bytes) -> TfliteModel:
    """Parse a .tflite file; every index is in range, every constant has the size that its shape says.

    ImportFailure: the file is no TFLite model, is truncated or corrupt, or exceeds a limit of this module.
    """
    if len(data) < 8 or data[4:8] != b"TFL3":
        raise ImportFailure("not a TFLite model: the identifier TFL3 is missing", stage=STAGE)
    try:
        return _read(tflite.Model.GetRootAs(data))
    except _FLATBUFFER_ERRORS as error:
        raise ImportFailure("malformed TFLite model: an offset or a length leaves the file", stage=STAGE) from error


def _read(model: Any) -> TfliteModel:
    n_subgraphs = _count(model.SubgraphsLength(), "subgraphs")
    if n_subgraphs < 1:
        raise _malformed("it has no subgraph")
    first, *others = (_read_subgraph(model, model.Subgraphs(index)) for index in range(n_subgraphs))
    return replace(first, subgraphs=tuple(others))


def _read_subgraph(model: Any, subgraph: Any) -> TfliteModel:
    tensors = tuple(_read_tensors(model, subgraph))
    return TfliteModel(
        tensors,
        tuple(_read_operators(model, subgraph, len(tensors))),
        _indices(subgraph.InputsAsNumpy(), len(tensors), "graph inputs"),
        _indices(subgraph.OutputsAsNumpy(), len(tensors), "graph outputs"),
    )


def _read_tensors(model: Any, subgraph: Any) -> Iterator[TfliteTensor]:
    n_buffers = _count(model.BuffersLength(), "buffers")
    constant_bytes = 0
    for index in range(_count(subgraph.TensorsLength(), "tensors")):
        tensor = subgraph.Tensors(index)
        if not 0 <= tensor.Buffer() < max(n_buffers, 1):
            raise _malformed(f"tensor {index} is in buffer {tensor.Buffer()}, there are {n_buffers}")
        shape = _integers(tensor.ShapeAsNumpy())
        if len(shape) > MAX_RANK or min(shape, default=0) < 0 or math.prod(shape) > MAX_ELEMENTS:
            raise _malformed(f"tensor {index} has shape {list(shape)}, limit {MAX_RANK} axes, {MAX_ELEMENTS} elements")
        dtype = _TYPE_NAMES.get(tensor.Type(), f"type {tensor.Type()}")
        constant = _constant(model.Buffers(tensor.Buffer()), index, dtype, shape) if n_buffers else None
        constant_bytes += 0 if constant is None else constant.nbytes
        if constant_bytes > MAX_CONSTANT_BYTES:
            raise _malformed(f"its constants exceed the limit of {MAX_CONSTANT_BYTES} bytes")
        scales, zero_points = _quantization(tensor.Quantization(), index)
        yield TfliteTensor(index, _text(tensor.Name(), f"tensor{index}"), dtype, shape, scales, zero_points, constant)


def _constant(buffer: Any, index: int, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """Contents of a tensor; None for an empty buffer and for element types that the graph does not have."""
    if buffer.Offset() > 1:
        raise _malformed(f"tensor {index} lies outside the flatbuffer, which is not supported")
    if not buffer.DataLength() or dtype not in DTYPES:
        return None
    raw: Array = buffer.DataAsNumpy()
    item = np.dtype(DTYPES[dtype])
    if raw.nbytes != math.prod(shape) * item.itemsize:
        raise _malformed(f"tensor {index} has {raw.nbytes} bytes, its shape {list(shape)} and type {dtype} need "
                         f"{math.prod(shape) * item.itemsize}")  # fmt: skip
    return raw.view(item.newbyteorder("<")).astype(item, copy=False).reshape(shape)


def _quantization(quantization: Any, index: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    if quantization is None:
        return (), ()
    scales = np.asarray(quantization.ScaleAsNumpy()).reshape(-1) if quantization.ScaleLength() else np.zeros(0)
    if not np.isfinite(scales).all() or (scales < 0).any():
        raise _malformed(f"tensor {index} has a scale that is negative or not finite")
    zero_points = _integers(quantization.ZeroPointAsNumpy()) or (0,) * len(scales)
    if scales.size and len(zero_points) not in (1, scales.size):
        raise _malformed(f"tensor {index} has {scales.size} scales and {len(zero_points)} zero points")
    return tuple(map(float, scales)), zero_points


def _read_operators(model: Any, subgraph: Any, n_tensors: int) -> Iterator[TfliteOperator]:
    n_codes = _count(model.OperatorCodesLength(), "operator codes")
    for index in range(_count(subgraph.OperatorsLength(), "operators")):
        operator = subgraph.Operators(index)
        if not 0 <= operator.OpcodeIndex() < n_codes:
            raise _malformed(f"operator {index} has code {operator.OpcodeIndex()}, there are {n_codes}")
        kind = _kind(model.OperatorCodes(operator.OpcodeIndex()))
        yield TfliteOperator(
            index,
            kind,
            _indices(operator.InputsAsNumpy(), n_tensors, f"inputs of {kind}#{index}", lowest=-1),
            _indices(operator.OutputsAsNumpy(), n_tensors, f"outputs of {kind}#{index}"),
            _options(operator, kind),
        )


def _kind(code: Any) -> str:
    # Codes above 126 do not fit the old 8-bit field, which then holds a placeholder that is smaller.
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if number == tflite.BuiltinOperator.CUSTOM:
        return f"CUSTOM {_text(code.CustomCode(), 'operator')}"
    return str(_NAMES.get(number, f"OPERATOR_{number}"))


def _options(operator: Any, kind: str) -> dict[str, Option]:
    """Options of a known operator; empty when the file has none of the right kind."""
    name, fields = _OPTIONS.get(kind, ("NONE", ()))
    if not fields or operator.BuiltinOptionsType() != getattr(tflite.BuiltinOptions, name):
        return {}
    table = operator.BuiltinOptions()
    options = getattr(tflite, name)()
    options.Init(table.Bytes, table.Pos)
    return {field: _option(getattr(options, field)()) for field in fields}


def _option(value: Any) -> Option:
    """Strings come as bytes, and None when they are absent."""
    if value is None or isinstance(value, bytes):
        return _text(value, "")
    return value  # type: ignore[no-any-return]


def _indices(array: Any, n_tensors: int, role: str, lowest: int = 0) -> tuple[int, ...]:
    indices = _integers(array)
    for index in indices:
        if not lowest <= index < n_tensors:
            raise _malformed(f"{role} name tensor {index}, there are {n_tensors}")
    return indices


def _integers(array: Any) -> tuple[int, ...]:
    """Elements of a vector of integers; the accessors give the number 0 for an absent one."""
    return tuple(int(value) for value in array) if isinstance(array, np.ndarray) else ()


def _count(length: int, role: str) -> int:
    if length > MAX_ITEMS:
        raise _malformed(f"{length} {role}, limit {MAX_ITEMS}")
    return length


def _text(raw: bytes | None, default: str) -> str:
    """A name on one line."""
    text = (raw or b"").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "?" for character in text) or default


def _malformed(reason: str) -> ImportFailure:
    return ImportFailure(f"malformed TFLite model: {reason}", stage=STAGE)
