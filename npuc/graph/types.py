"""Types of values: element type, logical shape, quantization and, once assigned, the physical layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
DType = Literal["float32", "int8", "uint8", "int16", "int32", "int64", "bool"]

ITEM_BYTES: dict[str, int] = {"float32": 4, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8, "bool": 1}


@dataclass(frozen=True)
class QuantParams:
    """Affine quantization of a whole tensor: real = scale * (q - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Host:
    """What the host sees of an input or output that is stored quantized: its element type, and how floats are rounded.

    Halves go to the even integer (ONNX) or away from zero (TensorFlow Lite).
    """

    dtype: DType = "float32"
    half_even: bool = False


@dataclass(frozen=True)
class Layout:
    """Where the elements of a value lie in its storage.

    `strides` [rank] are bytes per step of each logical axis. With `block` > 0 the channel axis 1 is cut into blocks of
    `block` channels whose distance is strides[1]; channels of a block are neighbours, a full pixel is `block` bytes
    and the ragged last block has pixel and row distances of its own (5HD, NC1HWC0).
    """

    storage: str
    offset_bytes: int
    strides: tuple[int, ...]
    block: int = 0


@dataclass(frozen=True)
class TensorType:
    """Element type, logical shape (axes as in ONNX: NCHW), quantization, layout."""

    dtype: DType
    shape: tuple[int, ...]
    quant: QuantParams | None = None
    layout: Layout | None = None

    @property
    def n_elements(self) -> int:
        """Product of the dimensions; 1 for a scalar."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def n_bytes(self) -> int:
        """Dense size in bytes."""
        return self.n_elements * ITEM_BYTES[self.dtype]

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        if self.quant is not None:
            text += f" q({self.quant.scale:.9g},{self.quant.zero_point})"
        if self.layout is not None:
            text += f" @{self.layout.storage}+{self.layout.offset_bytes}{list(self.layout.strides)}"
            text += f"/{self.layout.block}" if self.layout.block else ""
        return text
