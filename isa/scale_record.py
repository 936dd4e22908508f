"""The constants of output channels as a layer's `scale_form` stores them: records of 10 bytes, or of 6, 7 or 8."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from isa.descriptors import SCALES
from isa.fields import Field, RecordSpec

Number = TypeVar("Number", int, npt.NDArray[np.int64])
Column = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_LENGTHS = np.array([record.length_bytes for record in SCALES], np.int64)


class Scales(NamedTuple):
    """Columns [channels]."""

    bias: Column
    multiplier: Column
    shift: Column


def record_bytes(scale_form: Number) -> Number:
    """Bytes of a channel's record."""
    if isinstance(scale_form, int):
        return SCALES[scale_form].length_bytes
    return _LENGTHS[scale_form]


def shortest_form(scales: Scales) -> int:
    """The form with the shortest records that hold the constants of all channels."""
    forms = [form for form, record in enumerate(SCALES) if _holds(record, scales)]
    if not forms:
        raise ValueError("constants of a channel exceed 32 bits or a shift exceeds 8")
    return min(forms, key=lambda form: SCALES[form].length_bytes)


def pack(scales: Scales, scale_form: int) -> bytes:
    """The records of all channels."""
    record = SCALES[scale_form]
    if not _holds(record, scales):
        raise ValueError(f"records of {record.length_bytes} bytes do not hold the constants")
    values = scales._asdict()
    zero = np.zeros_like(scales.bias)
    bits = [
        (values.get(field.name, zero) - field.bias)[:, None] >> np.arange(field.bits) & 1 for field in record.fields
    ]
    return np.packbits(np.concatenate(bits, axis=1).astype(np.uint8), axis=1, bitorder="little").tobytes()


def unpack(records: Bytes, scale_form: int) -> Scales:
    """The constants in stored records [channels, bytes]."""
    bits = np.unpackbits(records, axis=1, bitorder="little").astype(np.int64)
    values, bit = {}, 0
    for field in SCALES[scale_form].fields:
        values[field.name] = _value(field, bits[:, bit : bit + field.bits])
        bit += field.bits
    return Scales(*(values[name] for name in Scales._fields))


def _holds(record: RecordSpec, scales: Scales) -> bool:
    fields = {field.name: field for field in record.fields}
    columns = scales._asdict().items()
    return all(((fields[name].low <= column) & (column <= fields[name].high)).all() for name, column in columns)


def _value(field: Field, bits: Column) -> Column:
    weights = 1 << np.arange(field.bits, dtype=np.int64)
    if field.signed:
        weights[-1] = -weights[-1]
    return bits @ weights + field.bias
