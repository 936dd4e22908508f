"""Shadow bytes: which row wrote each byte last, and which row of each queue read it last."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np

from isa.descriptors import Memory, split_address
from simulator.memory import Array, Pattern
from simulator.program import Column
from simulator.strict_access import Row, Touched
from simulator.strict_order import COUNTED

ROWS = 1 << 17
"""Row numbers of a line buffer, and more."""

PART_ELEMENTS = 1 << 20

_SHADOW = np.dtype(np.int64)


class Shadow:
    """Shadows of sram and dram; rows (here: instructions) are stored plus one, so that zero is nobody.

    Inputs and states are numbered behind the last row. `tensors`, by number: equal for those that write parts of one
    tensor, below zero for copies, whose memory may hold one thing after the other.
    """

    def __init__(self, n_bytes: Mapping[Memory, int], tensors: Column) -> None:
        self._writer, self._before, self._row = (_shadows(n_bytes) for _ in range(3))
        self._readers = {unit: _shadows(n_bytes) for unit in COUNTED}
        self._tensor = np.concatenate([[-1], tensors])
        self._buffers: dict[tuple[int, int, int], int] = {}
        self._sources: dict[Hashable, set[int]] = {}
        self._overwriter: dict[int, int] = {}
        self._is_read: set[int] = set()

    def conflicts(self, touched: Touched, unit: int, queue: Column) -> Iterator[tuple[str, str, int]]:
        """(what the instruction does, what the earlier one did, the earlier one) where they share bytes.

        Within a queue, writes come after all that earlier instructions do.
        """
        for index in _instructions(self._writer, touched.reads):
            if index < len(queue):
                yield "reads", "writes", index
        for index in _instructions(self._writer, touched.writes):
            if index < len(queue) and queue[index] != unit:
                yield "overwrites", "writes", index
        for other in COUNTED:
            if other != unit:
                for index in _instructions(self._readers[other], touched.writes):
                    yield "overwrites", "reads", index

    def other_rows(self, rows: Sequence[Row]) -> Iterator[tuple[Row, int, int]]:
        """(row that is read, row that is there, instruction that put it there) of line buffers and channel blocks."""
        for row in rows:
            wanted = self._row_tag(row)
            for pattern in row.patterns:
                there = _view(self._row, pattern)
                wrong = (there != wanted) & (there // ROWS == wanted // ROWS)
                if wrong.any():
                    yield row, int(there[wrong][0]) % ROWS, int(_view(self._writer, pattern)[wrong][0]) - 1

    def overwritten(self, patterns: Sequence[Pattern], operand: Hashable = None) -> list[int]:
        """Who wrote what others have overwritten here, of tensors read here or by earlier reads of `operand`."""
        writers = _instructions(self._writer, patterns)
        self._is_read.update(writers)
        sources = {self._tensor[index + 1] for index in writers}
        if operand is not None:
            earlier = self._sources.setdefault(operand, set())
            earlier.update(tensor for tensor in sources if tensor >= 0)
            sources |= earlier
        return [i for i in _instructions(self._before, patterns) if self._tensor[i + 1] in sources]

    def writer(self, address: int) -> int:
        """Who wrote this byte; -1: nobody."""
        memory, offset = split_address(address)
        return -1 if memory is Memory.FLASH else int(self._writer[memory][offset]) - 1

    def unread(self) -> list[tuple[int, int]]:
        """(overwritten, by whom) of those of whom nothing was read before it was overwritten."""
        return [pair for pair in self._overwriter.items() if pair[0] not in self._is_read]

    def visit(self, index: int, unit: int, touched: Touched) -> None:
        """The instruction has run."""
        for pattern in touched.reads:
            _view(self._readers[COUNTED[unit]], pattern)[...] = index + 1
        for pattern in touched.writes:
            self.write(index, pattern)
        for row in touched.written_rows:
            for pattern in row.patterns:
                _view(self._row, pattern)[...] = self._row_tag(row)

    def join(self, index: int, others: range, touched: Touched) -> None:
        """The row continues what one of `others` began, when it writes over that before anybody has read of it."""
        for writer in _instructions(self._writer, touched.writes):
            if writer in others and writer not in self._is_read:
                self._tensor[index + 1] = self._tensor[writer + 1]

    def write(self, index: int, pattern: Pattern) -> None:
        """The instruction, or an input that is numbered behind them, has written these bytes."""
        writer = _view(self._writer, pattern)
        self._overwriter.update((i, index) for i in _instructions(self._writer, [pattern]) if i != index)
        is_other = self._tensor[writer] != self._tensor[index + 1]
        np.copyto(_view(self._before, pattern), writer, where=is_other)
        writer[...] = index + 1
        _view(self._row, pattern)[...] = 0

    def meet(self, first: Sequence[Pattern], second: Sequence[Pattern]) -> bool:
        """Whether the two have a byte in common."""
        return any(_share(a, b) for a in first for b in second)

    def _row_tag(self, row: Row) -> int:
        return self._buffers.setdefault(row.buffer, len(self._buffers) + 1) * ROWS + row.row


def _shadows(n_bytes: Mapping[Memory, int]) -> dict[Memory, Array]:
    return {memory: np.zeros(n, _SHADOW) for memory, n in n_bytes.items() if memory is not Memory.FLASH}


def _instructions(shadow: Mapping[Memory, Array], patterns: Sequence[Pattern]) -> list[int]:
    """The instructions that the shadows of these bytes name."""
    found: set[int] = set()
    for pattern in patterns:
        found |= _values(_view(shadow, pattern))
    return sorted(index - 1 for index in found if index)


def _values(view: Array) -> set[int]:
    """The different values of a view, which is copied in parts of PART_ELEMENTS at most."""
    if view.size > PART_ELEMENTS and view.ndim > 1:
        return set().union(*(_values(part) for part in view))
    return set(np.flatnonzero(np.bincount(view.reshape(-1))).tolist())


def _view(shadow: Mapping[Memory, Array], pattern: Pattern) -> Array:
    """The shadows of the pattern's bytes, repeated ones once; the last axis is that of the bytes of an element."""
    memory, offset = split_address(pattern.address)
    each = _SHADOW.itemsize
    axes = [(n, stride * each) for n, stride in zip(pattern.shape, pattern.strides, strict=True) if stride]
    shape, strides = zip(*axes, (pattern.dtype.itemsize, each), strict=True)
    return Pattern(0, shape, strides, _SHADOW).view(shadow[memory], offset * each)


def _share(first: Pattern, second: Pattern) -> bool:
    low, high = min(first.address, second.address), max(_stop(first), _stop(second))
    if max(first.address, second.address) >= min(_stop(first), _stop(second)):
        return False
    flags = np.zeros(high - low, np.bool_)
    _flags(first, flags, low)[...] = True
    return bool(_flags(second, flags, low).any())


def _stop(pattern: Pattern) -> int:
    return pattern.address + pattern.reach_bytes


def _flags(pattern: Pattern, flags: Array, low: int) -> Array:
    shape, strides = (*pattern.shape, pattern.dtype.itemsize), (*pattern.strides, 1)
    return Pattern(0, shape, strides, np.dtype(np.bool_)).view(flags, pattern.address - low)
