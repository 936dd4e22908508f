"""Encodes and decodes one record of bit fields: a descriptor, the bytes of an instruction, a header of the container.

The encoding is canonical: reserved fields and bits behind the last field are zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import index

from isa.errors import IsaError
from isa.fields import Field, RecordSpec

WORD_BYTES = 8
"""Instructions and descriptors are stored in words of this many bytes, little-endian."""


def encode_record(spec: RecordSpec, values: Mapping[str, int], *, trim: bool = False) -> bytes:
    """The record's bytes; a field that is not given is stored as zero (a biased field then means its bias).

    With `trim` the result is a whole number of 8-byte words, at least one, without trailing zero words: what
    `desc.load` loads. IsaError for an unknown field and for every value that does not fit.
    """
    unknown = values.keys() - {field.name for field in spec.fields if not field.is_reserved}
    if unknown:
        raise IsaError(f"{spec.name}: unknown field {min(unknown)!r}")
    word, shift = 0, 0
    for field in spec.fields:
        value = index(values.get(field.name, field.bias))
        check_value(spec.name, field, value)
        word |= (value - field.bias & ((1 << field.bits) - 1)) << shift
        shift += field.bits
    data = word.to_bytes(spec.length_bytes, "little")
    return trim_words(data) if trim else data


def trim_words(data: bytes) -> bytes:
    """`data` without its trailing zero 8-byte words, at least one word long."""
    n_words = max(1, -(-len(data.rstrip(b"\0")) // WORD_BYTES))
    return data[: n_words * WORD_BYTES].ljust(n_words * WORD_BYTES, b"\0")


def decode_record(spec: RecordSpec, data: bytes) -> dict[str, int]:
    """The values of all fields that are not reserved; bytes that are not there are zero.

    IsaError when a reserved field, or a bit behind the last field, is not zero.
    """
    word = int.from_bytes(data, "little")
    values: dict[str, int] = {}
    for field in spec.fields:
        stored = word & ((1 << field.bits) - 1)
        word >>= field.bits
        if field.is_reserved and stored:
            raise IsaError(f"{spec.name}: {field.name} = {stored:#x}, allowed: 0")
        if field.signed and stored >> (field.bits - 1):
            stored -= 1 << field.bits
        if not field.is_reserved:
            values[field.name] = stored + field.bias
    if word:
        raise IsaError(f"{spec.name}: bits behind the last field are set, allowed: 0")
    return values


def check_value(record: str, field: Field, value: int) -> None:
    """IsaError unless the field can hold the value."""
    if not field.low <= value <= field.high:
        raise IsaError(f"{record}: {field.name} = {value}, allowed: {field.low} to {field.high}")
