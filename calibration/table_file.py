"""The quantization table as a JSON file: same table, same bytes; a reader that trusts nothing."""

import json
import os
import re
import reprlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from calibration.affine import FLOAT32_MAX, INTEGER_LIMITS, SYMMETRIC_DTYPES
from calibration.errors import CalibrationError
from calibration.table import SCHEMA, QuantTable, TensorQuant

MAX_FILE_BYTES = 64 << 20
TABLE_KEYS: dict[str, type] = {
    "schema": str, "model_sha256": str, "observer": str, "n_samples": int, "tensors": dict, "notes": list,
}  # fmt: skip
TENSOR_KEYS: dict[str, type] = {"scale": float, "zero_point": int, "dtype": str, "lo": float, "hi": float}
RECALIBRATE = "write the table again with npuc calibrate"


def format_table(table: QuantTable) -> str:
    """JSON text with sorted keys and shortest float digits that round-trip; ends with a newline."""
    tensors = {name: asdict(quant) for name, quant in table.tensors.items()}
    document = {
        "schema": SCHEMA,
        "model_sha256": table.model_sha256,
        "observer": table.observer,
        "n_samples": table.n_samples,
        "tensors": tensors,
        "notes": table.notes,
    }
    return json.dumps(document, sort_keys=True, indent=1, allow_nan=False) + "\n"


def write_table(table: QuantTable, path: Path) -> None:
    """Write the table; `path` holds either what it held before or the whole table. OSError if it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="ascii", newline="\n") as file:
            file.write(format_table(table))
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_table(path: Path) -> QuantTable:
    """Read a table. CalibrationError names the file, the tensor, the value and what is allowed."""
    return parse_table(_read_text(path), str(path))


def parse_table(text: str, source: str) -> QuantTable:
    """The table of a JSON text; `source` names it in messages. Scales are rounded to float32."""
    document = _parse_json(text, source)
    _check_schema(document, source)
    document = _checked_object(document, TABLE_KEYS, source)
    if not re.fullmatch("[0-9a-f]{64}", document["model_sha256"]):
        _refuse(f"{source}: model_sha256", document["model_sha256"], "64 lower-case hexadecimal digits")
    if document["n_samples"] < 0:
        _refuse(f"{source}: n_samples", document["n_samples"], "0 or more")
    for note in document["notes"]:
        if not isinstance(note, str):
            _refuse(f"{source}: a note", note, "a string")
    tensors = {name: _parse_tensor(entry, source, name) for name, entry in document["tensors"].items()}
    return QuantTable(
        document["model_sha256"], document["observer"], document["n_samples"], tensors, tuple(document["notes"])
    )


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CalibrationError(
            f"{path}: cannot be read: {error.strerror}", hint="give the path of a quantization table"
        ) from error
    if len(content) > MAX_FILE_BYTES:
        _refuse(str(path), f"more than {MAX_FILE_BYTES} bytes", f"at most {MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CalibrationError(
            f"{path}: byte {error.start} is not UTF-8 text, must be JSON", hint=RECALIBRATE
        ) from error


def _parse_json(text: str, source: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in pairs:
            if key in seen:
                _refuse(f"{source}: name", key, "given once")
            seen[key] = value
        return seen

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise CalibrationError(f"{source}: is not JSON: {reason[:1].lower()}{reason[1:]}", hint=RECALIBRATE) from error
    if not isinstance(document, dict):
        _refuse(source, document, "a JSON object")
    return document


def _check_schema(document: Mapping[str, Any], source: str) -> None:
    if document.get("schema") != SCHEMA:
        _refuse(f"{source}: schema", document.get("schema"), repr(SCHEMA))


def _checked_object(entry: object, keys: Mapping[str, type], source: str) -> dict[str, Any]:
    """`entry` if it is an object of exactly these keys and types."""
    if not isinstance(entry, dict):
        _refuse(source, entry, "a JSON object")
    if entry.keys() != keys.keys():
        differing = sorted(entry.keys() ^ keys.keys())
        _refuse(f"{source}: missing or unknown key", differing[0], f"exactly {', '.join(sorted(keys))}")
    for key, kind in keys.items():
        if not _has_type(entry[key], kind):
            _refuse(f"{source}: {key}", entry[key], f"of type {kind.__name__}")
    return entry


def _has_type(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _parse_tensor(value: object, source: str, name: str) -> TensorQuant:
    where = f"{source}: tensor {_shown(name)}"
    entry = _checked_object(value, TENSOR_KEYS, where)
    numbers = {key: _finite(entry[key], f"{where}: {key}") for key in ("scale", "lo", "hi")}
    scale = float(np.float32(numbers["scale"]))
    if scale <= 0:
        _refuse(f"{where}: scale", entry["scale"], "a float32 above 0")
    if numbers["lo"] > numbers["hi"]:
        _refuse(f"{where}: lo", entry["lo"], f"at most hi {numbers['hi']}")
    _check_zero_point(entry["zero_point"], entry["dtype"], where)
    return TensorQuant(scale, entry["zero_point"], entry["dtype"], numbers["lo"], numbers["hi"])


def _finite(value: float, where: str) -> float:
    # Compared as Python numbers: an int of a thousand digits has no float.
    if not -FLOAT32_MAX <= value <= FLOAT32_MAX:
        _refuse(where, value, "a finite float32")
    return float(value)


def _check_zero_point(zero_point: int, dtype: str, where: str) -> None:
    if dtype not in INTEGER_LIMITS:
        _refuse(f"{where}: dtype", dtype, " or ".join(INTEGER_LIMITS))
    low, high = (0, 0) if dtype in SYMMETRIC_DTYPES else INTEGER_LIMITS[dtype]
    if not low <= zero_point <= high:
        _refuse(f"{where}: zero_point", zero_point, f"from {low} to {high} for {dtype}")


def _shown(value: object) -> str:
    return reprlib.repr(value)


def _refuse(where: str, value: object, allowed: str) -> NoReturn:
    raise CalibrationError(f"{where}: got {_shown(value)}, must be {allowed}", hint=RECALIBRATE)
