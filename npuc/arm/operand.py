"""What single calls read and write, for kernels that work element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from npuc.arm.kernel_function import KINDS
from npuc.graph.types import ITEM_BYTES

Values = Mapping[str, Any]
Widths = Callable[[Values], dict[str, int]]

_KIND_BYTES = {number: ITEM_BYTES[name] for name, number in KINDS.items()}


def _pair(n_bytes: int) -> Widths:
    return lambda values: {"first": n_bytes, "second": n_bytes, "y": n_bytes}


def _narrow(values: Values) -> dict[str, int]:
    return {name: values[f"{name}_bytes"] for name in ("first", "second", "y")}


ELEMENT_BYTES: dict[str, Widths] = {
    "add": _narrow,
    "mul": _narrow,
    "table": lambda values: {"x": 1, "y": 1},
    "squash": lambda values: {"x": 2, "y": 2},
    "index_arithmetic": _pair(4),
    "float_binary": _pair(4),
    "float_unary": lambda values: {"x": 4, "y": 4},
    "float_quantize": lambda values: {"x": 4, "y": _KIND_BYTES[values["y_kind"]]},
    "float_dequantize": lambda values: {"x": _KIND_BYTES[values["x_kind"]], "y": 4},
    "to_float": lambda values: {"x": _KIND_BYTES[values["x_kind"]], "y": 4},
}
"""Bytes of an element of each tensor, by kernel: all of its operands in SRAM are these, and it writes `y`."""
