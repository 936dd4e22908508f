"""An instruction in pieces, each with reads, one computation and writes that may happen at moments of their own.

The simulator's own executors compute: they are bound to buffers of the piece in place of memory. A read copies bytes
from memory to such a buffer, a write copies them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from isa.arm_calls import ArmCall
from isa.descriptors import Memory, split_address
from simulator.arm_calls import Kernels
from simulator.errors import SimulatorFault, Site, instruction_site
from simulator.execute import BINDERS, Binding, Step, Workspace
from simulator.memory import Array, Bytes, Memories, Pattern

PIECES = 3
"""Pieces of an instruction that has so many rows or bytes; parts of a read or write."""

Move = Callable[[], None]


class Detached(Memories):
    """Memories whose views are buffers; flash is read in place. Nothing is checked for having been written."""

    def __init__(self, flash: Bytes, sram: Bytes) -> None:
        super().__init__(flash, sram)
        self.inputs: list[tuple[Array, Array]] = []
        self.outputs: list[tuple[Array, Array]] = []

    def read_view(self, site: Site, pattern: Pattern) -> Array:
        memory, offset = self._locate(site, "reads", pattern)
        view = pattern.view(self.arrays[memory], offset)
        if memory is Memory.FLASH:
            view.flags.writeable = False
            return view
        buffer = np.zeros(pattern.shape, pattern.dtype)
        self.inputs.append((buffer, view))
        return buffer

    def write_view(self, site: Site, pattern: Pattern) -> Array:
        memory, offset = self._locate_write(site, pattern)
        buffer = np.zeros(pattern.shape, pattern.dtype)
        self.outputs.append((pattern.view(self.arrays[memory], offset), buffer))
        return buffer

    def copy_views(self, site: Site, source: Pattern, destination: Pattern) -> tuple[Array, Array]:
        return self.read_view(site, source), self.write_view(site, destination)


@dataclass
class Piece:
    """Moves in and out, and the computation between them, which remembers what it computed from which bytes."""

    reads: tuple[Move, ...]
    writes: tuple[Move, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    step: Step
    known: dict[bytes, list[Array]]

    def compute(self) -> None:
        """Outputs from inputs."""
        key = b"".join([array.tobytes() for array in self.inputs])
        results = self.known.get(key)
        if results is None:
            self.step()
            if len(self.known) < 8:
                self.known[key] = [array.copy() for array in self.outputs]
            return
        for array, result in zip(self.outputs, results, strict=True):
            np.copyto(array, result)


@dataclass
class Executor:
    """Binds instructions of one target to flash and sram; equal instructions share their pieces."""

    flash: Bytes
    sram: Bytes
    cout_lanes: int

    def __post_init__(self) -> None:
        self._workspace = Workspace()
        self._pieces: dict[tuple[object, ...], tuple[Piece, ...]] = {}

    def pieces(self, mnemonic: str, values: Mapping[str, int], layer: Mapping[str, int]) -> tuple[Piece, ...]:
        """The pieces of an instruction with its captured descriptor; SimulatorFault for one that cannot run."""
        fields = {name: value for name, value in values.items() if not name.startswith(("wait", "more", "slot"))}
        key = (mnemonic, *fields.items(), *layer.items())
        if key not in self._pieces:
            self._pieces[key] = tuple(self._bind(mnemonic, part, layer) for part in parts(mnemonic, fields))
        return self._pieces[key]

    def call(self, call: ArmCall, kernels: Kernels) -> tuple[Piece, ...]:
        """The one piece of an Arm call, whose kernel works on memory of its own."""
        key = (call.kernel, call.parameters, call.ranges)
        if key not in self._pieces and call.kernel:
            sram, row = np.zeros_like(self.sram), [(call.kernel, call.version, call.parameters)]
            sides: tuple[list[tuple[Array, Array]], ...] = [], []
            for item in call.ranges:
                first = split_address(item.address)[1]
                part = slice(first, first + item.n_bytes)
                sides[item.is_written].append((sram[part], self.sram[part]))
            reads = tuple(move for own, memory in sides[0] for move in _moves(own, memory))
            writes = tuple(move for own, memory in sides[1] for move in _moves(memory, own))
            inputs, outputs = (tuple(own for own, _ in side) for side in sides)
            self._pieces[key] = (
                Piece(reads, writes, inputs, outputs, partial(_run, kernels, row, sram, self.flash), {}),
            )
        return self._pieces.get(key, ())

    def _bind(self, mnemonic: str, values: Mapping[str, int], layer: Mapping[str, int]) -> Piece:
        memories = Detached(self.flash, self.sram)
        site = instruction_site(0, mnemonic)
        step = BINDERS[mnemonic](Binding(memories, self._workspace, site, values, layer, self.cout_lanes, False))
        reads = tuple(move for pair in memories.inputs for move in _moves(*pair))
        writes = tuple(move for pair in memories.outputs for move in _moves(*pair))
        inputs, outputs = (tuple(a for a, _ in memories.inputs), tuple(b for _, b in memories.outputs))
        return Piece(reads, writes, inputs, outputs, step, {})


def _run(kernels: Kernels, row: list[tuple[int, int, bytes]], sram: Bytes, flash: Bytes) -> None:
    if kernels.run(row, sram, flash) != len(row):
        raise SimulatorFault("a kernel refused its parameters")


def parts(mnemonic: str, values: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """Instructions that together do what one does: its rows, or the bytes of a contiguous copy."""
    if mnemonic not in BINDERS:
        return
    if "height" in values:
        for first, last in _cuts(values["height"]):
            yield {**values, "y": values["y"] + first, "height": last - first}
    elif "length" in values:
        for first, last in _cuts(values["length"]):
            shifted = {side: values[side] + first for side in ("source", "destination")}
            yield {**values, **shifted, "length": last - first}
    else:
        yield values


def _moves(target: Array, source: Array) -> Iterator[Move]:
    axis = int(np.argmax(target.shape)) if target.ndim else 0
    for first, last in _cuts(target.shape[axis]):
        cut = (*(slice(None) for _ in range(axis)), slice(first, last))
        yield partial(np.copyto, target[cut], source[cut])


def _cuts(length: int) -> Iterator[tuple[int, int]]:
    n = min(length, PIECES)
    yield from pairwise(length * i // n for i in range(n + 1))
