"""Checks that integer operators share; every one raises ValueError with a one-line reason."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.graph.types import TensorType

Range = tuple[int, int]
"""Smallest and largest value, both included."""

RANGES: dict[str, Range] = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def require_operand(
    operand: TensorType, role: str, zero_point: int | None = None, dtypes: Sequence[str] = ("int8",)
) -> None:
    """The operand has rank 4, one of these element types and, if it is quantized and one is given, the zero point."""
    if len(operand.shape) != 4:
        raise ValueError(f"{role} has rank {len(operand.shape)}, need 4")
    if operand.dtype not in dtypes:
        raise ValueError(f"{role} is {operand.dtype}, need {' or '.join(dtypes)}")
    low, high = RANGES[operand.dtype]
    if zero_point is not None and not low <= zero_point <= high:
        raise ValueError(f"zero point {zero_point} of {role} is outside the range of {operand.dtype}")
    if zero_point is not None and operand.quant is not None and operand.quant.zero_point != zero_point:
        raise ValueError(f"{role} has zero point {operand.quant.zero_point}, its operator {zero_point}")


def require_range(clamp: Range, dtype: str = "int8") -> None:
    """The clamp is a range of `dtype` and not empty."""
    low, high = RANGES[dtype]
    if not low <= clamp[0] <= clamp[1] <= high:
        raise ValueError(f"clamp {list(clamp)} is no range within [{low}, {high}]")


def require_table(table: Sequence[int], dtype: str = "int8") -> None:
    """The table maps each of 256 values to a value of `dtype`, int8 or uint8."""
    low, high = RANGES[dtype]
    if len(table) != 256 or not low <= min(table) <= max(table) <= high:
        raise ValueError(f"table of {len(table)} entries, need 256 {dtype} values")
