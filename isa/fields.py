"""Bit fields of encoded records: the one notation in which every instruction and descriptor is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Field:
    """One unsigned or two's-complement bit field; fields of a record follow each other from bit 0 upwards.

    `bias` is subtracted before storing: a field with bias 1 stores n - 1, so that 8 bits hold 1..256.
    """

    name: str
    bits: int
    doc: str
    unit: str = ""
    bias: int = 0
    signed: bool = False
    is_optional: bool = False
    """Whether an instruction may leave it out; it is zero then."""

    @property
    def is_reserved(self) -> bool:
        """Whether the field must be zero; it takes part in no set of values."""
        return self.name.startswith("reserved")

    @property
    def low(self) -> int:
        """Smallest value that the field can hold."""
        return (-(1 << (self.bits - 1)) if self.signed else 0) + self.bias

    @property
    def high(self) -> int:
        """Largest value that the field can hold."""
        return (1 << (self.bits - (1 if self.signed else 0))) - 1 + self.bias


@dataclass(frozen=True)
class RecordSpec:
    """A named sequence of fields stored little-endian in `length_bytes` bytes; bits behind the last field are zero."""

    name: str
    doc: str
    length_bytes: int
    fields: tuple[Field, ...]
