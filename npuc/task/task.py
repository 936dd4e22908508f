"""Tasks, buffers and plans: the level between the graph and the instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from isa.instructions import BY_MNEMONIC, Queue
from npuc.errors import InvalidGraph
from npuc.lower.coding import Cuts
from npuc.lower.kernel import Kernel

_QUEUES = {mnemonic: spec.queue for mnemonic, spec in BY_MNEMONIC.items()}

BufferKind = Literal["input", "output", "activation", "parameters"]


@dataclass(frozen=True)
class Part:
    """Bytes [start, stop) of a kernel's parameters."""

    kernel: str
    start: int
    stop: int


@dataclass(frozen=True)
class Buffer:
    """A piece of SRAM. `ring_rows` > 0: a line buffer of that many rows; `window` > 0: a channel window of that many
    channels; `parts`: what a parameters buffer holds."""

    name: str
    kind: BufferKind
    n_bytes: int
    ring_rows: int = 0
    window: int = 0
    parts: tuple[Part, ...] = ()
    address: int | None = None


@dataclass(frozen=True)
class Load:
    """Copy bytes [start, stop) of a parameters buffer's flash image into the buffer.

    `after`: a kernel whose tasks before this one must be done first, beside what memory demands.
    """

    buffer: str
    start: int
    stop: int
    after: str = ""

    @property
    def queue(self) -> Queue:
        """DMA-in."""
        return Queue.DMA_IN


@dataclass(frozen=True)
class Compute:
    """One instruction of a kernel: a region of its output, the channels it sums, the block shape of the array.

    y, x, c are half-open ranges of the kernel's iteration space; `block` is (rows, pixels, channels).
    """

    kernel: str
    mnemonic: str
    n: int
    y: range
    x: range
    c: range
    k: range = range(1)
    block: tuple[int, int, int] = (1, 1, 8)

    @property
    def queue(self) -> Queue:
        """The queue of the instruction."""
        return _QUEUES[self.mnemonic]


@dataclass(frozen=True)
class Call:
    """Call number `index` of a kernel on the Arm core."""

    kernel: str
    index: int

    @property
    def queue(self) -> Queue:
        """The Arm core."""
        return Queue.ARM


Work = Compute | Call
"""What computes elements of a kernel's output."""

Task = Load | Work


@dataclass(frozen=True)
class Plan:
    """Kernels, buffers and tasks in program order. Parameters of `streamed` kernels are read from flash in place.

    `descriptors_wait`: a descriptor is read no sooner than the loads have ended that tasks before it wait for.
    """

    kernels: Mapping[str, Kernel]
    buffers: tuple[Buffer, ...]
    tasks: tuple[Task, ...]
    streamed: frozenset[str] = frozenset()
    descriptors_wait: bool = False

    @cached_property
    def buffer(self) -> dict[str, Buffer]:
        """Buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def _parts(self) -> dict[str, list[tuple[int, int, str, int]]]:
        found: dict[str, list[tuple[int, int, str, int]]] = {}
        for buffer in self.buffers:
            offset = 0
            for part in buffer.parts:
                found.setdefault(part.kernel, []).append((part.start, part.stop, buffer.name, offset))
                offset += part.stop - part.start
        return found

    def is_streamed(self, kernel: Kernel) -> bool:
        """Whether the kernel has parameters and reads them from flash."""
        return kernel.owner in self.streamed and kernel.parameters.n_bytes > 0

    def locate(self, kernel: str, start: int, stop: int) -> tuple[str, int]:
        """Parameters buffer and byte offset that hold bytes [start, stop) of the kernel's parameters."""
        for low, high, name, offset in self._parts.get(kernel, ()):
            if low <= start and stop <= high:
                return name, offset + start - low
        raise InvalidGraph(
            f"no buffer holds parameter bytes {start}..{stop} of {kernel} in one piece", node=kernel, stage="schedule"
        )


def weight_bytes(kernel: Kernel, task: Compute) -> tuple[int, int]:
    """Bytes [start, stop) of the kernel's parameters that hold the weights of the task's channels."""
    piece, head = kernel.parameters.piece(task.c), kernel.parameters.head_bytes
    return head + piece.start, head + piece.stop


def channel_cuts(tasks: Iterable[Task]) -> dict[str, Cuts]:
    """The channel ranges of each kernel's tasks, in order, as `WeightCoder.code` takes them."""
    found: dict[str, set[tuple[int, int]]] = {}
    for task in tasks:
        if isinstance(task, Compute):
            found.setdefault(task.kernel, set()).add((task.c.start, task.c.stop))
    return {name: tuple(sorted(cuts)) for name, cuts in found.items()}
