"""Operands: the access record of one tensor, relative to its storage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from isa.descriptors import ElementType
from npuc.errors import InvalidGraph
from npuc.graph.types import ITEM_BYTES, TensorType

ELEMENTS = {
    "int8": ElementType.INT8,
    "uint8": ElementType.UINT8,
    "int16": ElementType.INT16,
}
"""Element types that instructions compute with."""


def element_type(dtype: str) -> ElementType:
    """The machine's name of an element type. ValueError: no instruction computes with it."""
    if dtype not in ELEMENTS:
        raise ValueError(f"element type {dtype}, the instructions compute with {', '.join(ELEMENTS)}")
    return ELEMENTS[dtype]


@dataclass(frozen=True)
class Operand:
    """A tensor as the fetcher sees it: [n, rows, pixels, channels] with byte strides inside `storage`."""

    storage: str
    offset_bytes: int
    shape: tuple[int, int, int, int]
    batch: int
    row: int
    pixel: int
    block: int
    c0: int
    element: ElementType = ElementType.INT8
    zero_point: int = 0
    last_pixel: int = 0
    last_row: int = 0

    def fields(self, prefix: str, base_address: int, ring_rows: int) -> dict[str, int]:
        """Descriptor fields of this operand with its storage at `base_address`."""
        if ring_rows:
            return self.in_ring(ring_rows).fields(prefix, base_address, 0) | {f"{prefix}_ring": ring_rows}
        return {
            f"{prefix}_base": base_address + self.offset_bytes, f"{prefix}_pixel": self.pixel,
            f"{prefix}_row": self.row, f"{prefix}_block": self.block,
            f"{prefix}_batch": self.batch, f"{prefix}_last_pixel": self.last_pixel,
            f"{prefix}_last_row": self.last_row, f"{prefix}_ring": ring_rows,
            f"{prefix}_zero_point": self.zero_point, f"{prefix}_type": int(self.element), f"{prefix}_c0": self.c0,
        }  # fmt: skip

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return {ElementType.INT8: 1, ElementType.UINT8: 1, ElementType.INT16: 2, ElementType.INT32: 4}[self.element]

    @property
    def is_pixel_major(self) -> bool:
        """True when the channel blocks of a pixel are neighbours."""
        return self.block <= self.c0 * self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row over all channels; the operand must cover whole rows of its storage."""
        return self.row if self.is_pixel_major else self.shape[2] * self.shape[3] * self.element_bytes

    def in_ring(self, ring_rows: int) -> Operand:
        """The operand in a line buffer: channel blocks that lie apart move together."""
        return self if self.is_pixel_major else replace(self, block=ring_rows * self.row)

    def in_window(self, channels: int) -> Operand:
        """The operand in a channel window: channel c lies at c modulo `channels`, pixels are dense.

        Every channel block has `channels` channels and lies at the same place.
        """
        _, height, width, _ = self.shape
        pixel = channels * self.element_bytes
        return replace(
            self, row=pixel * width if height > 1 else 0, pixel=pixel if width > 1 else 0, block=0, c0=channels,
            last_pixel=0, last_row=0,
        )  # fmt: skip

    def span(self, n: int, y: range, c: range, ring_rows: int) -> list[tuple[int, int]]:
        """Byte intervals of the storage that hold these rows and channels: whole rows, so a superset."""
        at = self.in_ring(ring_rows) if ring_rows else self
        first, last = c.start // at.c0, (c.stop - 1) // at.c0
        groups = [(first, last)] if at.is_pixel_major else [(block, block) for block in range(first, last + 1)]
        return _union(at._interval(n, rows, *group) for group in groups for rows in _ring_parts(y, ring_rows))

    def _interval(self, n: int, rows: range, first: int, last: int) -> tuple[int, int]:
        channels = self.shape[3]
        ragged = last == channels // self.c0
        row = self.last_row if ragged and self.last_row else self.row
        pixel = self.last_pixel if ragged and self.last_pixel else self.pixel
        run = min(self.c0, channels - last * self.c0) * self.element_bytes
        origin = self.offset_bytes + n * self.batch
        low = origin + first * self.block + rows.start * row
        return low, origin + last * self.block + (rows.stop - 1) * row + (self.shape[2] - 1) * pixel + run


def _union(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _ring_parts(y: range, ring_rows: int) -> list[range]:
    if not ring_rows:
        return [y]
    if len(y) >= ring_rows:
        return [range(ring_rows)]
    start = y.start % ring_rows
    stop = start + len(y)
    if stop <= ring_rows:
        return [range(start, stop)]
    return [range(start, ring_rows), range(stop - ring_rows)]


def image_operand(type_: TensorType, channel_block: int, zero_point: int | None = None) -> Operand:
    """Operand of a rank-4 value [n,c,h,w] whose rows and pixels are its spatial axes."""
    layout = type_.layout
    if layout is None or len(type_.shape) != 4:
        raise InvalidGraph(f"{type_} is no placed image", stage="lower")
    n, c, h, w = type_.shape
    batch, channel, row, pixel = layout.strides
    zero = zero_point if zero_point is not None else (type_.quant.zero_point if type_.quant else 0)
    item = ITEM_BYTES[type_.dtype]
    if layout.block:
        ragged = c % layout.block
        block, c0 = channel, layout.block
        last_pixel, last_row = ragged if w > 1 else 0, ragged * w if h > 1 else 0  # 0: repeats, like the others
    elif channel == item or c == 1:
        block, c0, last_pixel, last_row = channel_block * item, channel_block, 0, 0
    else:
        block, c0, last_pixel, last_row = channel, 1, 0, 0
    return Operand(
        layout.storage,
        layout.offset_bytes,
        (n, h, w, c),
        batch if n > 1 else 0,
        row if h > 1 else 0,
        pixel if w > 1 else 0,
        block if c > c0 else 0,
        c0,
        element_type(type_.dtype),
        zero,
        last_pixel,
        last_row,
    )


def flat_operands(
    shape: Sequence[int], strides: Sequence[Sequence[int]], items: Sequence[int], channel_block: int
) -> tuple[tuple[int, int, int, int], list[tuple[int, int, int, int, int]]]:
    """Fit an element-wise iteration space of any rank into [n, y, x, c].

    `strides[i]` are operand i's byte strides per axis (0: broadcast), items[i] the bytes of an element. Returns the
    space and, for each operand, (batch, row, pixel, block, c0). Neighbouring axes merge when every operand allows it.
    """
    axes = [(size, tuple(s[i] for s in strides)) for i, size in enumerate(shape) if size != 1]
    axes.sort(key=lambda axis: -axis[1][-1])
    merged: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in axes:
        if merged and all(a == b * size for a, b in zip(merged[-1][1], steps, strict=True)):
            merged[-1] = (merged[-1][0] * size, steps)
        else:
            merged.append((size, steps))
    none = (1, tuple(0 for _ in strides))
    if not merged:
        merged = [none]
    merged = _split_long(merged)
    if 2 <= len(merged) < 4 and max(merged[-2][1]) > WIDEST_PIXEL:
        merged.insert(-1, none)
    if len(merged) > 4:
        raise ValueError(f"an element-wise operator over {len(merged)} separate axes; the machine has four")
    merged = [none] * (4 - len(merged)) + merged
    space = (merged[0][0], merged[1][0], merged[2][0], merged[3][0])
    records = []
    for i in range(len(strides)):
        batch, row, pixel, channel = (axis[1][i] for axis in merged)
        c0 = channel_block if channel == items[i] or space[3] == 1 else 1
        records.append((batch, row, pixel, channel * c0, c0))
    return space, records


WIDEST_PIXEL = (1 << 16) - 1
"""Largest pixel stride that a descriptor holds, in bytes; rows have room for more."""

LONGEST = 32768
"""Longest axis that an element-wise operator leaves whole; a power of two below the 16-bit fields."""


def _split_long(axes: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, tuple[int, ...]]]:
    result: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in axes:
        if size > LONGEST:
            inner = max(d for d in range(1, LONGEST + 1) if size % d == 0)
            if inner == 1:
                raise ValueError(f"an axis of {size} elements, longer than {LONGEST} and without a divisor")
            result.append((size // inner, tuple(step * inner for step in steps)))
            result.append((inner, steps))
        else:
            result.append((size, steps))
    return result
