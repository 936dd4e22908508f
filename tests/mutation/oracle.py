"""The oracle: what a program computes under a legal timing, its reads and writes spread over its instructions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isa.arm_calls import ArmCall
from isa.container import Container, IoEntry, read_container
from isa.descriptors import split_address
from isa.state import decode_states
from npuc.firmware.host import host_kernels
from simulator.errors import SimulatorFault
from simulator.memory import Array, Bytes
from simulator.program import program_target
from tests.mutation.piece import Executor, Move, Piece
from tests.mutation.program import editable
from tests.mutation.timing import Program, Timing, adversarial_timing, random_timing, timed

RANDOM_TIMINGS = 32

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """The first timing, of all that were tried, under which the outputs differ; `reason` says how."""

    differs: bool
    timing: str = ""
    reason: str = ""


class Oracle:
    """The inputs and the right outputs of a program, against which its mutants run."""

    def __init__(self, data: bytes, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        target = program_target(read_container(data))
        self._depth = target.costs.queue_depth
        self._sram: Bytes = np.zeros(target.board.sram_bytes, np.uint8)
        # Mutants differ in what lies behind the constants, which instructions do not read.
        self._executor = Executor(np.frombuffer(data, np.uint8), self._sram, target.architecture.cout_lanes)
        self._inputs, self._outputs = inputs, outputs

    def judge(self, data: bytes, n_random: int = RANDOM_TIMINGS) -> Outcome:
        """Run the program under two adversarial and `n_random` random timings, up to the first difference."""
        try:
            bound = self._bind(data)
        except SimulatorFault as fault:
            return Outcome(True, "any", str(fault))
        for name, timing in _timings(bound.program, n_random):
            reason = self._run(bound, timing)
            if reason:
                return Outcome(True, name, reason)
        return Outcome(False)

    def _bind(self, data: bytes) -> _Bound:
        program = editable(data)
        layers = iter(layer for _, layer in program.captured())
        rows = list(program.order())
        pieces = [
            self._executor.call(row, host_kernels())
            if isinstance(row, ArmCall)
            else self._executor.pieces(row.mnemonic, row.values, next(layers))
            for row in rows
        ]
        return _Bound(timed(rows, self._depth), pieces, program.container)

    def _run(self, bound: _Bound, timing: Timing) -> str:
        """How the outputs differ; nothing when they do not."""
        # Bytes that nobody has written hold something else in every run.
        self._sram[...] = np.random.default_rng(int(timing.retired[-1] * 1e6) % 2**32).integers(256)
        for entry in bound.io:
            if entry.direction == "in":
                self._io(entry)[...] = self._inputs[entry.name]
        for state in bound.states:
            self._bytes(state.address, len(state.initial))[...] = np.frombuffer(state.initial, np.uint8)
        try:
            for move in bound.moves(timing):
                move()
        except SimulatorFault as fault:
            return str(fault)
        for entry in bound.io:
            if entry.direction == "out" and not np.array_equal(self._io(entry), self._outputs[entry.name]):
                return f"output {entry.name} differs"
        return ""

    def _io(self, entry: IoEntry) -> Array:
        kind = np.dtype(entry.dtype).newbyteorder("<")
        return self._bytes(entry.address, entry.n_bytes).view(kind).reshape(entry.shape)

    def _bytes(self, address: int, n_bytes: int) -> Array:
        first = split_address(address)[1]
        return self._sram[first : first + n_bytes]


class _Bound:
    """A program whose pieces are bound, and the columns that give its moves a moment."""

    def __init__(self, program: Program, pieces: Sequence[tuple[Piece, ...]], container: Container) -> None:
        self.program, self.io, self.states = program, container.io, decode_states(container.state)
        flat = [(index, piece) for index, row in enumerate(pieces) for piece in row]
        self._owner = np.array([index for index, _ in flat], np.int64)
        self._reads = [move for _, piece in flat for move in piece.reads]
        self._writes = [move for _, piece in flat for move in piece.writes]
        self._computes: list[Move] = [piece.compute for _, piece in flat]
        self._reader = _repeat([len(piece.reads) for _, piece in flat])
        self._writer = _repeat([len(piece.writes) for _, piece in flat])
        self._moves = [*self._reads, *self._computes, *self._writes]
        self._kind = np.repeat([0, 1, 2], [len(self._reads), len(self._computes), len(self._writes)])

    def moves(self, timing: Timing) -> Iterator[Move]:
        """All moves in the order of their moments; a piece computes at its last read, and writes afterwards."""
        start, issued = timing.start[self._owner], timing.issued[self._owner]
        settled, retired = timing.settled[self._owner], timing.retired[self._owner]
        reads = start[self._reader] + (issued - start)[self._reader] * timing.read(len(self._reads))
        computes = start.copy()
        np.maximum.at(computes, self._reader, reads)
        first = np.maximum(computes, settled)
        writes = first[self._writer] + (retired - first)[self._writer] * timing.write(len(self._writes))
        order = np.lexsort((self._kind, np.concatenate([reads, computes, writes])))
        return (self._moves[i] for i in order.tolist())


def _repeat(counts: Sequence[int]) -> Index:
    return np.repeat(np.arange(len(counts)), counts)


def _timings(program: Program, n_random: int) -> Iterator[tuple[str, Timing]]:
    yield "early", adversarial_timing(program, late=False)
    yield "late", adversarial_timing(program, late=True)
    for seed in range(n_random):
        yield f"random {seed}", random_timing(program, seed)
