"""Reading an ONNX file that may be anything: one clear refusal instead of a crash."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from npuc.errors import ImportFailure
from npuc.importer.onnx_tensor import resolve_external_data

OLDEST_OPSET = 7

Source = onnx.ModelProto | bytes | str | Path


def load_model(source: Source) -> onnx.ModelProto:
    """A model with its external data in place and its functions inlined."""
    if isinstance(source, onnx.ModelProto):
        model = source
    elif isinstance(source, bytes):
        model = parse(source, "the model")
    else:
        model = read_file(Path(source))
    opset_of(model)
    return inline_functions(model) if model.functions else model


def read_file(path: Path) -> onnx.ModelProto:
    """Model and external data from a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImportFailure(f"cannot read {path}: {error.strerror}", hint="check the path") from error
    model = parse(data, path.name)
    resolve_external_data(model, path.parent)
    return model


def parse(data: bytes, name: str) -> onnx.ModelProto:
    """Model from its serialized form; refuses what protobuf rejects, and what it takes for an empty message."""
    hint = "check that the file is complete and is an ONNX model"
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ImportFailure(f"{name} is not an ONNX model ({len(data)} bytes do not parse)", hint=hint) from error
    require_text(model, name)
    if not model.HasField("graph") or not model.ir_version:
        raise ImportFailure(f"{name} is not an ONNX model ({len(data)} bytes hold no graph)", hint=hint)
    return model


def require_text(message: Message, name: str) -> None:
    """Raise ImportFailure when a text of the model is not UTF-8, which protobuf hands out as bytes."""
    for descriptor, value in message.ListFields():
        if descriptor.cpp_type == descriptor.CPPTYPE_MESSAGE:
            for item in value if descriptor.is_repeated else (value,):
                require_text(item, name)
        elif descriptor.type == descriptor.TYPE_STRING:
            for item in value if descriptor.is_repeated else (value,):
                if not isinstance(item, str):
                    raise ImportFailure(f"{name} is not an ONNX model ({descriptor.name} is no text)",
                                        hint="check that the file is complete and is an ONNX model")


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the default operator set; raises ImportFailure when it is missing or out of range."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if not versions:
        raise ImportFailure("the model names no version of the ONNX operator set", hint="export it again")
    if not OLDEST_OPSET <= max(versions) <= newest:
        raise ImportFailure(f"operator set version {max(versions)}, supported are {OLDEST_OPSET} to {newest}",
                            hint=f"convert the model to one of {OLDEST_OPSET} to {newest}")
    return int(max(versions))


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace calls of model-local functions by their bodies."""
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError) as error:
        raise ImportFailure(f"functions cannot be inlined: {str(error).splitlines()[0]}") from error
