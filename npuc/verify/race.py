"""Races: accesses of two instructions to one byte, at least one a write, that no chain of waits orders.

Between queues, an access of `a` comes before one of `b` when `b` starts after `a` has retired. Within a queue, blocks
pass through the unit in order: a later instruction's writes come after an earlier one's reads and writes, but its
reads come after an earlier one's writes only when it waits for them to retire. Calls of the Arm core run one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isa.instructions import Queue
from npuc.verify.access import SAME_PLACE, Access
from npuc.verify.binary import Decoded
from npuc.verify.byteset import Lattice, common
from npuc.verify.order import COUNTED, Clock
from npuc.verify.verdict import Finding, Names, interval

Column = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Line:
    """All sets of bytes that one queue accesses outside flash, in the order of its instructions."""

    items: list[tuple[int, bool, Lattice]]
    """(index of the instruction, whether it writes, the set)."""
    number: Column
    start: Column
    stop: Column
    writes: npt.NDArray[np.bool_]


def is_flash(item: Lattice) -> bool:
    """Whether the set lies in read-only memory."""
    return item.start >> 30 == 0


def _line(code: Sequence[Decoded], accesses: Sequence[tuple[Access, ...]], queue: Queue) -> _Line:
    rows = [
        (decoded.number, decoded.index, access.writes, part)
        for decoded in code
        if decoded.queue == queue
        for access in accesses[decoded.index]
        for part in access.parts
        if not is_flash(part)
    ]
    columns = [(number, part.start, part.stop) for number, _, _, part in rows]
    number, start, stop = np.array(columns, np.int64).reshape(-1, 3).T
    return _Line([row[1:] for row in rows], number, start, stop, np.array([row[2] for row in rows], np.bool_))


class RaceSearch:
    """Finds the races of a program whose order and clocks are known; counts the pairs that it had to compare."""

    def __init__(
        self,
        code: Sequence[Decoded],
        accesses: Sequence[tuple[Access, ...]],
        clocks: dict[int, Clock],
        order: Sequence[int],
        names: Names,
    ) -> None:
        self._code, self._accesses, self._clocks, self._order, self._names = code, accesses, clocks, order, names
        self._lines = {queue: _line(code, accesses, queue) for queue in COUNTED}
        self.n_unordered_pairs = 0

    def races(self) -> Iterator[Finding]:
        """One finding for every pair of racing instructions."""
        before = dict.fromkeys(COUNTED, 0)
        for index in self._order:
            decoded = self._code[index]
            if decoded.queue not in before:
                continue
            yield from self._with_itself(decoded)
            reported: set[int] = set()
            for queue in COUNTED:
                if self._clocks[index][queue] < before[queue]:
                    yield from self._against(decoded, queue, before[queue], reported)
            before[decoded.queue] += 1

    def _against(self, later: Decoded, queue: Queue, last: int, reported: set[int]) -> Iterator[Finding]:
        """Races with the instructions of a queue that may still run when `later` starts."""
        line = self._lines[queue]
        first = self._clocks[later.index][queue]
        window = slice(*np.searchsorted(line.number, [first + 1, last + 1]).tolist())
        if window.start == window.stop:
            return
        starts, stops, writes = line.start[window], line.stop[window], line.writes[window]
        for access in self._accesses[later.index]:
            if queue == later.queue and access.writes:
                continue
            for part in access.parts:
                meets = (starts < part.stop) & (stops > part.start)
                if not access.writes:
                    meets &= writes
                for row in np.flatnonzero(meets).tolist():
                    index, earlier_writes, other = line.items[window.start + row]
                    self.n_unordered_pairs += 1
                    shared = range(0) if index in reported else common(part, other)
                    if shared:
                        reported.add(index)
                        yield self._race(index, earlier_writes, later.index, access.writes, shared)

    def _race(self, first: int, first_writes: bool, second: int, second_writes: bool, shared: range) -> Finding:
        verbs = ["writes" if writes else "reads" for writes in (second_writes, first_writes)]
        message = (
            f"{self._names.instruction(second)} {verbs[0]} {interval(shared)}, which "
            f"{self._names.instruction(first)} {verbs[1]}, and no wait orders them"
        )
        return Finding("race", message, (first, second), shared)

    def _with_itself(self, decoded: Decoded) -> Iterator[Finding]:
        """Reads of an instruction that its own writes may overtake; what a kernel may do is the kernel's affair."""
        operands = self._accesses[decoded.index] if decoded.queue != Queue.ARM else ()
        for source in operands:
            for target in operands:
                if source.writes or not target.writes or _is_in_place(decoded, source, target):
                    continue
                shared = next((s for a in source.parts for b in target.parts if (s := common(a, b))), range(0))
                if shared:
                    message = f"{self._names.instruction(decoded.index)} overwrites {interval(shared)} of its own input"
                    yield Finding("race", message, (decoded.index, decoded.index), shared)


def _is_in_place(decoded: Decoded, source: Access, target: Access) -> bool:
    """Whether every output element replaces the input element that it was computed from."""
    elementwise = source.role == "ifm2" or decoded.spec.mnemonic in SAME_PLACE or _is_scaling(decoded, source)
    return elementwise and source.place == target.place


def _is_scaling(decoded: Decoded, source: Access) -> bool:
    """A depthwise kernel of one tap on the pixels themselves: the array has each before the output stage has its
    product, and needs it for no other."""
    layer = decoded.layer
    return (
        decoded.spec.mnemonic == "mac.depthwise"
        and source.role == "ifm"
        and all(layer[f"{name}_{axis}"] == 1 for name in ("kernel", "stride") for axis in "hw")
        and layer["pad_top"] == layer["pad_left"] == 0
    )
