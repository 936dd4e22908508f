"""Parameter records read back: what a call works on, for costs and for the bytes that it touches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from npuc.arm.kernel_spec import KERNEL, RECORDS, Field


@dataclass(frozen=True)
class Parameters:
    """Values of a parameter record by field; a record within it is a mapping, an array a tuple."""

    values: dict[str, Any]

    @property
    def n_elements(self) -> int:
        """Elements of the largest tensor, times those of a row that a tensor leaves out; bytes of a copy."""
        tensors = [value for value in self.values.values() if isinstance(value, dict) and "size" in value]
        sizes = [value["size"] for value in tensors] + [self.values["size"]] * ("size" in self.values)
        n: int = max(map(prod, sizes), default=0) * self.values.get("count", 1)
        return n

    @property
    def n_macs(self) -> int:
        """Products of a convolution or an LSTM, taps of a pooling window."""
        values, products = self.values, 0
        if "recurrent" in values:
            products = values["weights"]["size"][3] + values["recurrent"]["size"][3]
            products *= 4
        elif "weights" in values:
            products = prod(values["weights"]["size"][1:])
        elif "window" in values:
            products = prod(values["window"]["kernel"])
        return products * prod(values["y"]["size"]) if products else 0


def decode_parameters(kernel: str, parameters: bytes) -> Parameters:
    """The values of a kernel's parameter record, the counterpart of `encode_parameters`."""
    words = iter(np.frombuffer(parameters, "<i4").tolist())
    return Parameters({field.name: _value(field, words) for field in KERNEL[kernel].fields})


def _value(field: Field, words: Iterator[int]) -> Any:
    if field.count > 1:
        return tuple(_value(Field(field.name, field.kind, ""), words) for _ in range(field.count))
    if field.kind == "int32":
        return next(words)
    return {part.name: _value(part, words) for part in RECORDS[field.kind][1]}
