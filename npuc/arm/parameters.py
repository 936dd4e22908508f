"""Parameter records read back: what a call works on, for costs and for the bytes that it touches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npuc.arm.kernel_spec import KERNEL, RECORDS, Field


def decode_parameters(kernel: str, parameters: bytes) -> dict[str, Any]:
    """Values of a kernel's record by field, the counterpart of `encode_parameters`.

    A record within it is a dict, an array a tuple.
    """
    words = iter(np.frombuffer(parameters, "<i4").tolist())
    return {field.name: _value(field, words) for field in KERNEL[kernel].fields}


def _value(field: Field, words: Iterator[int]) -> Any:
    if field.count > 1:
        return tuple(_value(Field(field.name, field.kind, ""), words) for _ in range(field.count))
    if field.kind == "int32":
        return next(words)
    return {part.name: _value(part, words) for part in RECORDS[field.kind][1]}
