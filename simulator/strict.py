"""Strict mode: what a program may do wrong under some timing, found on one pass in program order.

Every byte of sram and dram has a shadow: the instruction that wrote it last, and the last reader of each queue. An
access that its instruction's clock does not order behind them is a race, whatever the timing of this run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from isa.instructions import Queue
from isa.state import decode_states
from simulator.errors import SimulatorFault, Site, instruction_site
from simulator.execute import BINDERS, Workspace
from simulator.memory import Pattern
from simulator.program import Column, Program, check_order
from simulator.strict_access import Touched, Watched, WatchedBinding
from simulator.strict_order import clocks, numbers, stuck
from simulator.strict_shadow import Shadow

COPIES = ("dma.load", "dma.load4", "dma.store", "dma.store4")

HINTS = {
    "race": "let the later instruction wait for the earlier one to retire",
    "overwritten": "give the two different memory, or run the reader before it is overwritten",
    "deadlock": "place it behind the instructions that it waits for",
}


@dataclass(frozen=True)
class Finding:
    """`kind` is `race`, `overwritten`, `fault` (out of range, unwritten bytes, ...) or `deadlock`.

    `instructions` are numbers in program order, the later one last; `message` names them with their layers.
    """

    kind: str
    message: str
    instructions: tuple[int, ...]


def check(program: Program, layers: Mapping[int, str] | None = None, sram_bytes: int | None = None) -> list[Finding]:
    """All findings of a program; `layers` names the layer of an instruction and its source nodes."""
    walk = _Walk(program, layers or {}, sram_bytes)
    return list(walk.deadlocks()) or list(walk.accesses())


def require_order(program: Program, layers: Mapping[int, str], sram_bytes: int) -> None:
    """SimulatorFault for what depends on the timing; other faults are left to those who bind the program."""
    found = [finding for finding in check(program, layers, sram_bytes) if finding.kind != "fault"]
    if found:
        more = f", and {len(found) - 1} more findings" if len(found) > 1 else ""
        raise SimulatorFault(f"{found[0].kind}: {found[0].message}{more}", HINTS[found[0].kind])


class _Walk:
    """The instructions in program order, and the shadow that they leave."""

    def __init__(self, program: Program, layers: Mapping[int, str], sram_bytes: int | None) -> None:
        board = program.target.board
        n_sram = board.sram_bytes if sram_bytes is None else sram_bytes
        self._program, self._layers = program, layers
        self._memories = Watched(program.flash, n_sram, board.dram_bytes)
        container = program.container
        self._given = [(f"input {e.name}", e.address, e.n_bytes) for e in container.io if e.direction == "in"]
        self._given += [("a state", state.address, len(state.initial)) for state in decode_states(container.state)]
        sizes = {memory: len(array) for memory, array in self._memories.arrays.items()}
        self._shadow = Shadow(sizes, _tensors(program, len(self._given)))
        self._workspace = Workspace()

    def deadlocks(self) -> Iterator[Finding]:
        """Instructions that never start; else one that waits for a later one, which the walk cannot follow."""
        waiting = stuck(self._program)
        for index in waiting:
            yield Finding("deadlock", f"{self._name(index)} never starts", (index,))
        if not waiting:
            try:
                check_order(self._program)
            except SimulatorFault as fault:
                yield Finding("fault", str(fault), ())

    def accesses(self) -> Iterator[Finding]:
        """Races, faults and overwritten bytes, in program order; a pair of instructions once."""
        self._write_inputs()
        order, number = clocks(self._program), numbers(self._program)
        queue = self._program.code.queue
        for index in range(len(queue)):
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
            message = f"{self._name(index)} reads row {row}, which {self._name(writer)} overwrote with row {found}"
            yield Finding("overwritten", message, (writer, index))
            return
        yield from self._computed_scales(index)
        yield from self._partly_overwritten(self._name(index), touched.constants, (index,))
        for prefix, patterns in touched.operands.items():
            yield from self._partly_overwritten(self._name(index), patterns, (index,), self._operand(index, prefix))

    def _computed_scales(self, index: int) -> Iterator[Finding]:
        """Scales are constants: units write where they lie only when they overwrite them."""
        program = self._program
        if program.spec(index).queue is Queue.MAC:
            writer = self._shadow.writer(program.descriptor(index)["scales"])
            if 0 <= writer < len(program.code) and program.spec(writer).queue in (Queue.MAC, Queue.VEC):
                message = f"{self._name(index)} reads its scales, which {self._name(writer)} overwrote"
                yield Finding("overwritten", message, (writer, index))

    def _operand(self, index: int, prefix: str) -> Hashable:
        """Equal for the instructions of one MAC layer, which its scales tell from others; None for the others."""
        spec, layer = self._program.spec(index), self._program.descriptor(index)
        if spec.queue is not Queue.MAC:
            return None
        record = tuple(value for name, value in layer.items() if name.startswith(f"{prefix}_"))
        return spec.mnemonic, prefix, record, layer["scales"], self._shadow.writer(layer["scales"])

    def _partly_overwritten(
        self, reader: str, patterns: list[Pattern], index: tuple[int, ...] = (), operand: Hashable = None
    ) -> Iterator[Finding]:
        """An operand that holds some of what was written there as one, the rest of it overwritten.

        Fills are there to be overwritten. Outputs, which no instruction reads, may keep parts of an input.
        """
        n_code = len(self._program.code)
        for writer in self._shadow.overwritten(patterns, operand):
            if index if writer >= n_code else self._program.spec(writer).mnemonic != "dma.fill":
                message = f"{reader} reads what {self._name(writer)} wrote, a part of which was overwritten before"
                yield Finding("overwritten", message, (*([writer] if writer < n_code else []), *index))

    def _bind(self, index: int) -> tuple[Touched, list[Finding]]:
        program, spec = self._program, self._program.spec(index)
        touched = self._memories.touched = Touched()
        binder = BINDERS.get(spec.mnemonic)
        if binder is None:
            return touched, []
        site = instruction_site(index, spec.mnemonic, self._layers.get(index, ""))
        binding = WatchedBinding(
            self._memories, self._workspace, site, program.values(index), program.descriptor(index),
            program.target.architecture.cout_lanes, True, spec.mnemonic,
        )  # fmt: skip
        try:
            binder(binding)
        except SimulatorFault as fault:
            return touched, [Finding("fault", str(fault), (index,))]
        return touched, []

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
            if writer < len(self._program.code) and self._program.spec(writer).mnemonic in COPIES:
                message = f"{self._name(by)} overwrites what {self._name(writer)} wrote, before anything has read of it"
                yield Finding("overwritten", message, (writer, by))

    def _write_inputs(self) -> None:
        """Inputs and states are written before the start."""
        for number, (name, address, n_bytes) in enumerate(self._given):
            pattern = Pattern(address, (n_bytes,), (1,))
            self._memories.write_view(Site(name), pattern)
            self._shadow.write(len(self._program.code) + number, pattern)

    def _name(self, index: int) -> str:
        if index >= len(self._program.code):
            return self._given[index - len(self._program.code)][0]
        return instruction_site(index, self._program.spec(index).mnemonic, self._layers.get(index, "")).name


def _tensors(program: Program, n_given: int) -> Column:
    """By instruction, then by input: which tensor it writes; copies one each, numbered below zero."""
    known: dict[tuple[object, ...], int] = {}
    tensors = [_tensor(program, index, known) for index in range(len(program.code))]
    return np.array([*tensors, *range(len(known), len(known) + n_given)], np.int64)


def _tensor(program: Program, index: int, known: dict[tuple[object, ...], int]) -> int:
    layer = program.descriptor(index)
    if "ofm_base" not in layer:
        return -2 - index
    place = (value for name, value in layer.items() if name.startswith("ofm_"))
    return known.setdefault((program.spec(index).mnemonic, layer["scales"], *place), len(known))
