"""Strict mode: what a program may do wrong under some timing, found on one pass in program order.

Every byte of sram and dram has a shadow: the instruction that wrote it last, and the last reader of each queue. An
access that its instruction's clock does not order behind them is a race, whatever the timing of this run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from isa.instructions import Queue
from isa.state import decode_states
from simulator.arm_calls import touch_ranges
from simulator.errors import SimulatorFault, Site
from simulator.execute import BINDERS, Workspace
from simulator.memory import Pattern
from simulator.order import execution_order
from simulator.program import Program
from simulator.strict_access import Touched, Watched, WatchedBinding
from simulator.strict_order import clocks, numbers, stuck
from simulator.strict_shadow import Shadow
from simulator.strict_tensor import free_origin, tensors

COPIES = ("dma.load", "dma.load4", "dma.store", "dma.store4")

HINTS = {
    "race": "let the later instruction wait for the earlier one to retire",
    "overwritten": "give the two different memory, or run the reader before it is overwritten",
    "deadlock": "place it behind the instructions that it waits for",
}


@dataclass(frozen=True)
class Finding:
    """`kind` is `race`, `overwritten`, `fault` (out of range, unwritten bytes, ...) or `deadlock`.

    `instructions` are rows of the program, the later one last; `message` names them with their layers.
    """

    kind: str
    message: str
    instructions: tuple[int, ...]


def check(program: Program, layers: Mapping[int, str] | None = None, sram_bytes: int | None = None) -> list[Finding]:
    """All findings of a program; `layers` names the layer of a row and its source nodes."""
    walk = _Walk(program, layers or {}, sram_bytes)
    return list(walk.deadlocks()) or list(walk.accesses())


def require_order(program: Program, layers: Mapping[int, str], sram_bytes: int) -> None:
    """SimulatorFault for what depends on the timing; other faults are left to those who bind the program."""
    found = [finding for finding in check(program, layers, sram_bytes) if finding.kind != "fault"]
    if found:
        more = f", and {len(found) - 1} more findings" if len(found) > 1 else ""
        raise SimulatorFault(f"{found[0].kind}: {found[0].message}{more}", HINTS[found[0].kind])


class _Walk:
    """The rows in the order of execution, and the shadow that they leave."""

    def __init__(self, program: Program, layers: Mapping[int, str], sram_bytes: int | None) -> None:
        board = program.target.board
        n_sram = board.sram_bytes if sram_bytes is None else sram_bytes
        self._program, self._layers = program, layers
        self._memories = Watched(program.flash, n_sram, board.dram_bytes)
        container = program.container
        self._given = [(f"input {e.name}", e.address, e.n_bytes) for e in container.io if e.direction == "in"]
        self._given += [("a state", state.address, len(state.initial)) for state in decode_states(container.state)]
        sizes = {memory: len(array) for memory, array in self._memories.arrays.items()}
        self._shadow = Shadow(sizes, tensors(program, len(self._given)))
        self._workspace = Workspace()
        self._calls = range(len(program.code), program.n_rows)

    def deadlocks(self) -> Iterator[Finding]:
        """Rows that never start; else one that waits for a later one, which the walk cannot follow."""
        waiting = stuck(self._program)
        for index in waiting:
            yield Finding("deadlock", f"{self._name(index)} never starts", (index,))
        if not waiting:
            try:
                execution_order(self._program)
            except SimulatorFault as fault:
                yield Finding("fault", str(fault), ())

    def accesses(self) -> Iterator[Finding]:
        """Races, faults and overwritten bytes, in the order of execution; a pair of rows once."""
        self._write_inputs()
        walk = execution_order(self._program)
        order, number = clocks(self._program, walk), numbers(self._program)
        queue = self._program.queue
        for index in walk:
            touched, faults = self._bind(index)
            yield from faults
            yield from self._overtaken(index, touched)
            seen: set[int] = set()
            for verb, other, earlier in self._shadow.conflicts(touched, int(queue[index]), queue):
                if number[earlier] > order[index][queue[earlier]] and earlier not in seen:
                    seen.add(earlier)
                    yield self._race(index, verb, earlier, other)
            if not faults:
                yield from self._overwritten(index, touched)
            if self._program.call(index) is not None:
                # A kernel may fill a tensor before it writes what is inside.
                self._shadow.join(index, self._calls, touched)
            self._shadow.visit(index, int(queue[index]), touched)
        yield from self._outputs()
        yield from self._unread()

    def _race(self, index: int, verb: str, earlier: int, other: str) -> Finding:
        message = f"{self._name(index)} {verb} bytes that {self._name(earlier)} {other}, and no condition orders them"
        return Finding("race", message, (earlier, index))

    def _overtaken(self, index: int, touched: Touched) -> Iterator[Finding]:
        if self._shadow.meet(touched.aside, touched.writes):
            yield Finding("race", f"{self._name(index)} overwrites its own input", (index, index))

    def _overwritten(self, index: int, touched: Touched) -> Iterator[Finding]:
        for row, found, writer in self._shadow.other_rows(touched.read_rows):
            reader, what = self._name(index), f"{row.kind} {row.row}"
            message = f"{reader} reads {what}, which {self._name(writer)} overwrote with {row.kind} {found}"
            yield Finding("overwritten", message, (writer, index))
            return
        yield from self._computed_scales(index)
        yield from self._partly_overwritten(self._name(index), touched.constants, (index,))
        for prefix, patterns in touched.operands.items():
            yield from self._partly_overwritten(self._name(index), patterns, (index,), self._operand(index, prefix))

    def _computed_scales(self, index: int) -> Iterator[Finding]:
        """Scales are constants: units and calls write where they lie only when they overwrite them."""
        queue = self._program.queue
        layer = self._program.descriptor(index) if queue[index] == Queue.MAC else {}
        if layer:  # a wait has none
            writer = self._shadow.writer(layer["scales"])
            if 0 <= writer < len(queue) and queue[writer] in (Queue.MAC, Queue.VEC, Queue.ARM):
                message = f"{self._name(index)} reads its scales, which {self._name(writer)} overwrote"
                yield Finding("overwritten", message, (writer, index))

    def _operand(self, index: int, prefix: str) -> Hashable:
        """Equal for the instructions of one MAC layer, which its scales tell from others; None for the others."""
        if self._program.queue[index] != Queue.MAC:
            return None
        spec, layer = self._program.spec(index), self._program.descriptor(index)
        record = tuple(value for name, value in layer.items() if name.startswith(f"{prefix}_"))
        origin = free_origin(self._program, index)
        return spec.mnemonic, prefix, record, origin, layer["scales"], self._shadow.writer(layer["scales"])

    def _partly_overwritten(
        self, reader: str, patterns: list[Pattern], index: tuple[int, ...] = (), operand: Hashable = None
    ) -> Iterator[Finding]:
        """An operand that holds some of what was written there as one, the rest of it overwritten.

        Fills are there to be overwritten. Outputs, which no instruction reads, may keep parts of an input.
        """
        n_rows = self._program.n_rows
        for writer in self._shadow.overwritten(patterns, operand):
            if index if writer >= n_rows else self._mnemonic(writer) != "dma.fill":
                message = f"{reader} reads what {self._name(writer)} wrote, a part of which was overwritten before"
                yield Finding("overwritten", message, (*([writer] if writer < n_rows else []), *index))

    def _bind(self, index: int) -> tuple[Touched, list[Finding]]:
        touched = self._memories.touched = Touched()
        try:
            self._touch(index)
        except SimulatorFault as fault:
            return touched, [Finding("fault", str(fault), (index,))]
        return touched, []

    def _touch(self, index: int) -> None:
        program, site, call = self._program, self._program.site(index, self._layers), self._program.call(index)
        if call is not None:
            touch_ranges(self._memories, site, call)
            self._memories.touched.aside.clear()  # a kernel may write where it reads
            return
        mnemonic = program.spec(index).mnemonic
        binder = BINDERS.get(mnemonic)
        if binder is not None:
            values, descriptor = program.values(index), program.descriptor(index)
            lanes = program.target.architecture.cout_lanes
            binder(WatchedBinding(self._memories, self._workspace, site, values, descriptor, lanes, True, mnemonic))

    def _outputs(self) -> Iterator[Finding]:
        for entry in self._program.container.io:
            if entry.direction == "out":
                pattern = Pattern(entry.address, (entry.n_bytes,), (1,))
                try:
                    self._memories.read_view(Site(f"output {entry.name}"), pattern)
                except SimulatorFault as fault:
                    yield Finding("fault", str(fault), ())
                else:
                    yield from self._partly_overwritten(f"output {entry.name}", [pattern])
        for state in decode_states(self._program.container.state):
            self._shadow.overwritten([Pattern(state.address, (len(state.initial),), (1,))])

    def _unread(self) -> Iterator[Finding]:
        """Copies in vain. What units compute may be more than is needed."""
        for writer, by in self._shadow.unread():
            if self._mnemonic(writer) in COPIES:
                message = f"{self._name(by)} overwrites what {self._name(writer)} wrote, before anything has read of it"
                yield Finding("overwritten", message, (writer, by))

    def _write_inputs(self) -> None:
        """Inputs and states are written before the start."""
        for number, (name, address, n_bytes) in enumerate(self._given):
            pattern = Pattern(address, (n_bytes,), (1,))
            self._memories.write_view(Site(name), pattern)
            self._shadow.write(self._program.n_rows + number, pattern)

    def _mnemonic(self, row: int) -> str:
        """Nothing for calls, inputs and states."""
        return self._program.spec(row).mnemonic if row < len(self._program.code) else ""

    def _name(self, row: int) -> str:
        n_rows = self._program.n_rows
        return self._given[row - n_rows][0] if row >= n_rows else self._program.site(row, self._layers).name
