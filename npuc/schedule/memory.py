"""Live ranges and sizes of storages while steps run, and how many bytes are live at each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuc.lower.kernel import ALIGNMENT, PARAMETERS
from npuc.schedule.stripes import Group, Step, StripeBook
from npuc.task.windows import window_bytes


@dataclass(frozen=True)
class Storage:
    """A dense piece of SRAM that one or more values share; inputs live from the start, outputs to the end."""

    name: str
    n_bytes: int
    is_input: bool = False
    is_output: bool = False


@dataclass(frozen=True)
class Live:
    """A storage, line buffer or channel window, live while steps first..last run."""

    name: str
    n_bytes: int
    first: int
    last: int
    ring_rows: int = 0
    window: int = 0


def aligned(n_bytes: int) -> int:
    """Size rounded up to the alignment of buffers."""
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT


def live_ranges(
    book: StripeBook,
    storages: Mapping[str, Storage],
    groups: Sequence[Group],
    steps: Sequence[Step],
    owner: Sequence[int],
) -> list[Live]:
    """Live range of every storage over `steps`; owner[i] is the index of the group that step i belongs to."""
    touched = [{kernel.ofm.storage, *kernel.reads} - {PARAMETERS} for kernel in book.kernels]
    first: dict[str, int] = {name: 0 for name, storage in storages.items() if storage.is_input}
    last: dict[str, int] = dict(first)
    for position, step in enumerate(steps):
        for name in touched[step.kernel]:
            first.setdefault(name, position)
            last[name] = position
    result = []
    for name, storage in storages.items():
        if name not in first:
            first[name] = last[name] = len(steps) - 1 if storage.is_output else 0
        end = len(steps) - 1 if storage.is_output else last[name]
        kept = storage.is_input or storage.is_output or not steps
        group = None if kept else groups[owner[first[name]]]
        result.append(live_of(book, storage, first[name], end, group))
    return result


def live_of(book: StripeBook, storage: Storage, first: int, last: int, group: Group | None) -> Live:
    """A storage as it lives: in a line buffer or channel window while a group runs, or whole."""
    rows = book.ring_rows(group, storage.name) if group is not None else 0
    window = book.window(group, storage.name) if group is not None else 0
    if rows or window:
        operand = book.written(storage.name)
        if rows and rows < operand.shape[1]:
            return Live(storage.name, aligned(rows * operand.row_bytes), first, last, rows)
        if window and window < operand.shape[3]:
            return Live(storage.name, aligned(window_bytes(operand, window)), first, last, window=window)
    return Live(storage.name, aligned(storage.n_bytes), first, last)


def profile(lives: Sequence[Live], n_steps: int) -> npt.NDArray[np.int64]:
    """Live bytes [n_steps] at every step."""
    change = np.zeros(max(n_steps, 1) + 1, np.int64)
    for live in lives:
        change[live.first] += live.n_bytes
        change[live.last + 1] -= live.n_bytes
    return np.cumsum(change)[:n_steps]


def expand_all(book: StripeBook, groups: Sequence[Group]) -> tuple[list[Step], list[int]]:
    """Steps of all groups in order and the group index of each step."""
    steps: list[Step] = []
    owner: list[int] = []
    for index, group in enumerate(groups):
        part = book.steps(group)
        steps += part
        owner += [index] * len(part)
    return steps, owner
