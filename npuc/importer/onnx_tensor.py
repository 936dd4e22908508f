"""Tensors of an ONNX file as numpy arrays, with external data read only from the model's own folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from npuc.errors import ImportFailure
from npuc.graph.types import Array


def tensor_array(tensor: onnx.TensorProto) -> Array:
    """Contents of a tensor; every float type becomes float32."""
    name = tensor.name or "a tensor attribute"
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ImportFailure(f"{name}: external data needs the path of the model", hint="pass the path, not the bytes")
    if any(size < 0 for size in tensor.dims):
        raise ImportFailure(f"{name}: negative dimension in {list(tensor.dims)}")
    try:
        array = np.asarray(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ImportFailure(f"{name}: contents do not fit the type and dimensions {list(tensor.dims)}") from error
    if array.dtype.kind in "OSU":
        raise ImportFailure(f"{name}: string tensors are not supported")
    if array.dtype.kind not in "iub" and array.dtype != np.float32:
        array = array.astype(np.float32)
    return array


def resolve_external_data(model: onnx.ModelProto, folder: Path) -> None:
    """Read every external tensor of `model` into it; the files must lie in `folder` or below it."""
    for tensor in tensors_of(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.raw_data = external_bytes(tensor, folder)
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]


def tensors_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a graph and its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for subgraph in (attribute.g, *attribute.graphs):
                yield from tensors_of(subgraph)


def external_bytes(tensor: onnx.TensorProto, folder: Path) -> bytes:
    """Raw bytes of one external tensor; raises ImportFailure for a path outside `folder` and for a short file."""
    entry: dict[str, str] = {item.key: item.value for item in tensor.external_data}
    location = entry.get("location", "")
    path: Path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()):
        raise ImportFailure(f"{tensor.name}: external data at {location!r} lies outside the model's folder",
                            hint="keep the data beside the model and use relative paths")
    if not path.is_file():
        raise ImportFailure(f"{tensor.name}: external data file {location!r} is missing",
                            hint="copy it beside the model")
    try:
        offset, length = int(entry.get("offset", 0)), int(entry.get("length", -1))
    except ValueError as error:
        raise ImportFailure(f"{tensor.name}: offset or length of external data is not a number") from error
    available = path.stat().st_size - offset
    length = available if "length" not in entry else length
    if offset < 0 or not 0 <= length <= available:
        raise ImportFailure(f"{tensor.name}: external data needs bytes {offset} to {offset + length} of {location!r}, "
                            f"which has {path.stat().st_size}")
    with path.open("rb") as file:
        file.seek(offset)
        return bytes(file.read(length))
