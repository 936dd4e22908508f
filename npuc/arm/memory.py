"""Operands of kernels: strided views in the two memories, and a builder that gives every array an address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from npuc.arm.kernel_spec import ABSENT, FLASH, SRAM, TENSOR_AXES
from npuc.errors import DoesNotFit
from npuc.graph.types import ITEM_BYTES, Array, TensorType

Bytes = npt.NDArray[np.uint8]

ALIGNMENT_BYTES = 16
_MAX_BYTES = 1 << 30
"""Of a memory; offsets are 32-bit and signed."""

Block = tuple[int, int]
"""(memory, offset), as the record `block`."""

NO_BLOCK: Block = (ABSENT, 0)
NO_TENSOR = (NO_BLOCK, (0,) * TENSOR_AXES, (0,) * TENSOR_AXES)


@dataclass(frozen=True)
class View:
    """Elements of `dtype` at strides of bytes, one for each axis of `shape`; `offset` is that of element 0, 0, ..."""

    memory: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def block(self) -> Block:
        """Where it begins."""
        return self.memory, self.offset

    @property
    def is_row_major(self) -> bool:
        """True when the elements lie without gaps in the order of the axes."""
        strides = row_major_strides(self.shape, self.item_bytes)
        return all(n == 1 or got == want for n, got, want in zip(self.shape, self.strides, strides, strict=True))

    def tensor(self) -> tuple[Block, tuple[int, ...], tuple[int, ...]]:
        """The record `tensor`: four axes, axes of size 1 in front if there are fewer."""
        missing = TENSOR_AXES - len(self.shape)
        if missing < 0:
            raise ValueError(f"tensor of rank {len(self.shape)}, limit {TENSOR_AXES}")
        return self.block, (1,) * missing + self.shape, (0,) * missing + self.strides

    def broadcast(self, shape: tuple[int, ...]) -> View:
        """The view with numpy's broadcasting to `shape`."""
        missing = len(shape) - len(self.shape)
        own = zip((1,) * missing + self.shape, (0,) * missing + self.strides, strict=True)
        strides = tuple(0 if n != m else stride for (n, stride), m in zip(own, shape, strict=True))
        return replace(self, shape=shape, strides=strides)

    def without(self, axis: int) -> View:
        """Element 0 along an axis, which disappears."""
        shape, strides = (row[:axis] + row[axis + 1 :] for row in (self.shape, self.strides))
        return replace(self, shape=shape, strides=strides)

    def transpose(self, order: Sequence[int]) -> View:
        """The view whose axis i is axis order[i] of this one."""
        return replace(
            self, shape=tuple(self.shape[a] for a in order), strides=tuple(self.strides[a] for a in order)
        )  # fmt: skip

    def take(self, ranges: Iterable[range]) -> View:
        """The elements at these indices, none of the ranges empty, steps of either sign."""
        ranges = tuple(ranges)
        start = sum(r.start * stride for r, stride in zip(ranges, self.strides, strict=True))
        strides = tuple(r.step * stride for r, stride in zip(ranges, self.strides, strict=True))
        return replace(self, offset=self.offset + start, shape=tuple(map(len, ranges)), strides=strides)

    def reshape(self, shape: tuple[int, ...]) -> View:
        """The same elements under another shape; only for a row-major view."""
        return replace(self, shape=shape, strides=row_major_strides(shape, self.item_bytes))

    def array(self, sram: Bytes, flash: Bytes) -> Array:
        """The elements themselves, writable where the memory is."""
        buffer = flash if self.memory == FLASH else sram
        return np.ndarray(self.shape, np.dtype(self.dtype).newbyteorder("<"), buffer.data, self.offset, self.strides)


def row_major_strides(shape: Sequence[int], item_bytes: int) -> tuple[int, ...]:
    """Byte strides of a dense array."""
    strides = []
    for size in reversed(shape):
        strides.append(item_bytes)
        item_bytes *= size
    return tuple(reversed(strides))


class MemoryMap:
    """Gives arrays addresses: values in SRAM from `sram_start` on, constants in flash from `flash_start` on.

    Both are multiples of the alignment. Nothing is ever released.
    """

    def __init__(self, sram_start: int = 0, flash_start: int = 0) -> None:
        self.n_sram_bytes = 0
        self._sram_start, self._flash_start = sram_start, flash_start
        self._flash = bytearray()

    @property
    def flash(self) -> Bytes:
        """Contents of the flash so far."""
        return np.frombuffer(bytes(self._flash), np.uint8)

    def place(self, kind: TensorType, order: Sequence[int]) -> View:
        """Room in SRAM for a value; `order` lists its axes from the outermost in memory to the innermost."""
        view = _arranged(SRAM, self._sram_start + self.n_sram_bytes, kind.dtype, kind.shape, order)
        self.n_sram_bytes = _aligned(self.n_sram_bytes + kind.n_bytes, "sram")
        return view

    def constant(self, array: Array, order: Sequence[int] | None = None) -> View:
        """A constant in flash, axes in memory as `order` says, in their own order without it."""
        order = range(array.ndim) if order is None else order
        view = _arranged(FLASH, self._flash_start + len(self._flash), array.dtype.name, array.shape, order)
        stored = array.astype(array.dtype.newbyteorder("<"), copy=False).transpose(order)
        self._flash += stored.tobytes()
        self._flash += bytes(_aligned(len(self._flash), "flash") - len(self._flash))
        return view


def _arranged(memory: int, offset: int, dtype: str, shape: tuple[int, ...], order: Sequence[int]) -> View:
    strides = [0] * len(shape)
    for axis, stride in zip(order, row_major_strides([shape[a] for a in order], ITEM_BYTES[dtype]), strict=True):
        strides[axis] = stride
    return View(memory, offset, dtype, shape, tuple(strides))


def _aligned(n_bytes: int, memory: str) -> int:
    if n_bytes > _MAX_BYTES:
        raise DoesNotFit(f"the kernels' {memory} needs more than {_MAX_BYTES} bytes", stage="firmware",
                         hint="run a smaller batch or a smaller network")  # fmt: skip
    return -(-n_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
