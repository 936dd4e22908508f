"""Checks that integer operators share; every one raises ValueError with a one-line reason."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.graph.types import TensorType

Range = tuple[int, int]
"""Smallest and largest value, both included."""


def require_operand(
    operand: TensorType, role: str, zero_point: int | None = None, dtypes: Sequence[str] = ("int8",)
) -> None:
    """The operand has rank 4, one of these element types and, if it is quantized and one is given, the zero point."""
    if len(operand.shape) != 4:
        raise ValueError(f"{role} has rank {len(operand.shape)}, need 4")
    if operand.dtype not in dtypes:
        raise ValueError(f"{role} is {operand.dtype}, need {' or '.join(dtypes)}")
    lowest = 0 if operand.dtype == "uint8" else -128
    if zero_point is not None and not lowest <= zero_point <= lowest + 255:
        raise ValueError(f"zero point {zero_point} of {role} is outside the range of {operand.dtype}")
    if zero_point is not None and operand.quant is not None and operand.quant.zero_point != zero_point:
        raise ValueError(f"{role} has zero point {operand.quant.zero_point}, its operator {zero_point}")


def require_range(clamp: Range) -> None:
    """The clamp is an int8 range and not empty."""
    if not -128 <= clamp[0] <= clamp[1] <= 127:
        raise ValueError(f"clamp {list(clamp)} is no range within [-128, 127]")


def require_table(table: Sequence[int], dtype: str = "int8") -> None:
    """The table maps each of 256 values to a value of `dtype`, int8 or uint8."""
    lowest = 0 if dtype == "uint8" else -128
    if len(table) != 256 or not lowest <= min(table) <= max(table) <= lowest + 255:
        raise ValueError(f"table of {len(table)} entries, need 256 {dtype} values")
