"""What is asked of the allocator: buffers with live ranges, and the constraints between them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BYTES = 1 << 40
"""Largest size, alignment, address and capacity; sums of a million of them stay inside the solver's 64-bit integers."""

Names = tuple[str, ...]


class InvalidProblem(ValueError):
    """The problem contradicts itself or its file is malformed; the message is one line and names the culprit."""


@dataclass(frozen=True)
class Buffer:
    """A tensor's memory: `size_bytes` bytes, live during the half-open interval [lower, upper).

    The unit of time is the caller's (steps, cycles). The address is a multiple of `alignment_bytes`, and equals
    `fixed_offset` bytes from the arena's start if that is given.
    """

    name: str
    lower: int
    upper: int
    size_bytes: int
    alignment_bytes: int = 1
    fixed_offset: int | None = None

    def __post_init__(self) -> None:
        for message in _buffer_errors(self):
            raise InvalidProblem(f"buffer {self.name}: {message}")


@dataclass(frozen=True)
class Problem:
    """Buffers to place in an arena of `capacity_bytes` bytes (None: unlimited).

    aliases: names that share one offset and may overlap (views, in-place results); their live ranges and sizes may
        differ, and the memory is free whenever none of them is live. Tuples that share a name merge.
    contiguous: names laid end to end in this order, each starting at the byte after its predecessor's last one.
    Raises InvalidProblem.
    """

    buffers: tuple[Buffer, ...]
    capacity_bytes: int | None = None
    aliases: tuple[Names, ...] = ()
    contiguous: tuple[Names, ...] = ()

    def __post_init__(self) -> None:
        for message in _problem_errors(self):
            raise InvalidProblem(message)


def _buffer_errors(buffer: Buffer) -> Iterator[str]:
    if buffer.upper <= buffer.lower:
        yield f"live range [{buffer.lower}, {buffer.upper}) is empty, upper must exceed lower"
    if not 1 <= buffer.size_bytes <= MAX_BYTES:
        yield f"size is {buffer.size_bytes} bytes, allowed 1 to {MAX_BYTES}"
    if not 1 <= buffer.alignment_bytes <= MAX_BYTES:
        yield f"alignment is {buffer.alignment_bytes} bytes, allowed 1 to {MAX_BYTES}"
    elif buffer.fixed_offset is not None:
        yield from _fixed_offset_errors(buffer.fixed_offset, buffer.alignment_bytes)


def _fixed_offset_errors(offset: int, alignment_bytes: int) -> Iterator[str]:
    if not 0 <= offset <= MAX_BYTES:
        yield f"fixed offset is {offset}, allowed 0 to {MAX_BYTES}"
    if offset % alignment_bytes:
        yield f"fixed offset {offset} is not a multiple of the alignment {alignment_bytes}"


def _problem_errors(problem: Problem) -> Iterator[str]:
    counts = Counter(buffer.name for buffer in problem.buffers)
    yield from (f"buffer name {name} is used {count} times" for name, count in counts.items() if count > 1)
    if problem.capacity_bytes is not None and not 0 <= problem.capacity_bytes <= MAX_BYTES:
        yield f"capacity is {problem.capacity_bytes} bytes, allowed 0 to {MAX_BYTES}"
    for kind, groups in (("alias", problem.aliases), ("contiguous", problem.contiguous)):
        for group in groups:
            yield from _group_errors(kind, group, counts)


def _group_errors(kind: str, group: Names, known: Counter[str]) -> Iterator[str]:
    shown = f"{kind} group ({', '.join(group)})"
    yield from (f"{shown}: {name} is not a buffer" for name in group if name not in known)
    yield from (f"{shown}: {name} appears twice" for name, count in Counter(group).items() if count > 1)
