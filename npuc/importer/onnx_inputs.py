"""Shapes of the model's inputs: what the file says, completed by `--shape NAME=1,3,224,224`."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from npuc.errors import ImportFailure, UsageError
from npuc.graph.types import DType, TensorType

# What is proposed for a dimension that the file leaves open: the batch, then channels, rows, columns.
SUGGESTION = (1, 3, 224, 224)

INPUT_TYPES: dict[int, DType] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.FLOAT16: "float32",
    onnx.TensorProto.DOUBLE: "float32",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.BOOL: "bool",
}

Dimension = int | str | None


def bind_inputs(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, TensorType]:
    """Type of each run-time input, in order; initializers that are listed as inputs are none.

    Raises UsageError for a shape that names no input or contradicts the file, ImportFailure for one that is missing.
    """
    initializers = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in initializers]
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise UsageError(f"--shape {name}: the model has no such input", hint=f"choose from {', '.join(names)}")
    if len(set(names)) != len(names):
        raise ImportFailure(f"two inputs have the same name among {', '.join(names)}")
    declared = {value.name: dimensions(value) for value in inputs}
    symbols = bind_symbols(declared, shapes)
    return {value.name: input_type(value, declared[value.name], shapes, symbols) for value in inputs}


def dimensions(value: onnx.ValueInfoProto) -> list[Dimension] | None:
    """Declared dimensions: a size, a symbol, or None; the list is None when the file has no shape."""
    if not value.type.HasField("tensor_type"):
        raise ImportFailure(f"input {value.name!r} is not a tensor")
    if not value.type.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.dim_value > 0 else symbol(dim.dim_param) for dim in value.type.tensor_type.shape.dim]


def symbol(name: str) -> str | None:
    """Name of a symbolic dimension; some exporters write "?" for several dimensions that differ."""
    return None if name in ("", "?") else name


def bind_symbols(declared: Mapping[str, list[Dimension] | None], shapes: Mapping[str, tuple[int, ...]]
                 ) -> dict[str, int]:
    """Sizes of symbolic dimensions that the given shapes fix; other inputs with the same symbol follow."""
    symbols: dict[str, int] = {}
    for name, shape in shapes.items():
        dims = declared[name]
        if min(shape, default=1) < 1:
            raise UsageError(f"--shape {name}={join(shape)}: every dimension must be at least 1")
        if dims is None:
            continue
        fixed = [size if dim is None or isinstance(dim, str) else dim for dim, size in zip(dims, shape, strict=False)]
        if len(dims) != len(shape) or fixed != list(shape):
            raise UsageError(f"--shape {name}={join(shape)} contradicts the model, which declares "
                             f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]")
        for dim, size in zip(dims, shape, strict=True):
            if isinstance(dim, str) and symbols.setdefault(dim, size) != size:
                raise UsageError(f"--shape {name}={join(shape)}: {dim} is already {symbols[dim]}")
    return symbols


def input_type(value: onnx.ValueInfoProto, dims: list[Dimension] | None, shapes: Mapping[str, tuple[int, ...]],
               symbols: Mapping[str, int]) -> TensorType:
    """Complete type of one input, or the refusal that prints the option to give."""
    code = value.type.tensor_type.elem_type
    if code not in INPUT_TYPES:
        raise ImportFailure(f"input {value.name!r} has element type {code} of onnx.TensorProto")
    if value.name in shapes:
        return TensorType(INPUT_TYPES[code], tuple(shapes[value.name]))
    if dims is None:
        raise ImportFailure(f"input {value.name!r} has no shape", hint=f"add --shape {value.name}={join(SUGGESTION)}")
    sizes = [symbols.get(dim) if isinstance(dim, str) else dim for dim in dims]
    fixed = tuple(size for size in sizes if size is not None)
    if len(fixed) < len(sizes):
        default = SUGGESTION if len(sizes) == len(SUGGESTION) else (1,) * len(sizes)
        proposal = [proposed if size is None else size for size, proposed in zip(sizes, default, strict=True)]
        shown = ", ".join("?" if dim is None else str(dim) for dim in dims)
        raise ImportFailure(f"input {value.name!r} has the symbolic shape [{shown}]",
                            hint=f"add --shape {value.name}={join(proposal)}")
    return TensorType(INPUT_TYPES[code], fixed)


def join(shape: tuple[int, ...] | list[int]) -> str:
    """1,3,224,224."""
    return ",".join(map(str, shape))
