"""Groups of kernels that run stripe by stripe of their rows or slice by slice of their channels (`slices.py`), so that
what flows between them needs only a line buffer or a channel window.

A group of one kernel with one stripe is layer-by-layer execution. Rows are produced on demand: before each stripe of
the last kernels, every kernel of the group computes the rows that its consumers in the group will read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuc.lower.kernel import Kernel
from npuc.lower.operand import Operand
from npuc.schedule.slices import SliceBook


@dataclass(frozen=True)
class Group:
    """Kernels [start, stop) of the kernel list, computed in `stripes` of rows, or in slices of `channels`."""

    start: int
    stop: int
    stripes: int = 1
    channels: int = 0
    """Of a slice; 0: all at once."""
    spare: int = 0
    """Stripes for which line buffers have room beside what is alive, so that a unit writes the next while another one
    reads."""

    @property
    def is_whole(self) -> bool:
        """Whether kernels run one after the other."""
        return self.stripes == 1 and not self.channels


@dataclass(frozen=True)
class Step:
    """Rows `y` and channels `c` of kernel number `kernel`."""

    kernel: int
    y: range
    c: range


def expand(kernels: Sequence[Kernel], group: Group) -> list[Step]:
    """Steps of one group in order; every element of every kernel is computed exactly once."""
    members = range(group.start, group.stop)
    if group.stripes == 1:
        total = kernels[group.start].space[3]
        if not group.channels:
            return [Step(i, range(kernels[i].space[1]), range(kernels[i].space[3])) for i in members]
        slices = [range(c, min(c + group.channels, total)) for c in range(0, total, group.channels)]
        return [Step(i, range(kernels[i].space[1]), c) for c in slices for i in members]
    pull = _Pull(kernels, members, group.stripes)
    for stripe in range(1, group.stripes + 1):
        for i in pull.sinks:
            pull.advance(i, kernels[i].space[1] * stripe // group.stripes)
    for i in members:
        pull.advance(i, kernels[i].space[1])
    return pull.steps


class _Pull:
    """Computes rows when a consumer asks for them, so that line buffers stay as short as the windows allow."""

    def __init__(self, kernels: Sequence[Kernel], members: range, stripes: int) -> None:
        self._kernels = kernels
        self._done = dict.fromkeys(members, 0)
        self._granule = {i: -(-kernels[i].space[1] // stripes) for i in members}
        self._producers = {
            i: [j for j in members if j < i and kernels[j].ofm.storage in kernels[i].reads] for i in members
        }
        feeding = {j for producers in self._producers.values() for j in producers}
        self.sinks = [i for i in members if i not in feeding]
        self.steps: list[Step] = []

    def advance(self, i: int, rows: int) -> None:
        """Compute kernel `i` up to `rows` rows, a granule at a time, and first what each granule reads."""
        while self._done[i] < rows:
            stop = min(self._done[i] + self._granule[i], rows)
            for j in self._producers[i]:
                self.advance(j, rows_read(self._kernels[j], self._kernels[i], range(self._done[i], stop)))
            self.steps.append(Step(i, range(self._done[i], stop), range(self._kernels[i].space[3])))
            self._done[i] = stop


def rows_read(producer: Kernel, consumer: Kernel, y: range) -> int:
    """Rows of `producer` that must exist before `consumer` computes rows `y`."""
    reads = ((consumer.ifm, consumer.input_rows(y).stop), (consumer.ifm2, y.stop))
    return max(
        _rows_holding(producer.ofm, operand, stop)
        for operand, stop in reads
        if operand is not None and operand.storage == producer.ofm.storage
    )


def _rows_holding(ofm: Operand, operand: Operand, stop: int) -> int:
    """Rows of a result that hold the first `stop` rows of an operand in its storage: all of them unless both have rows
    of the same bytes, as a view that cuts or joins rows has not."""
    blocks = {(one.block, one.is_pixel_major) for one in (ofm, operand) if one.block}
    if (ofm.row, ofm.batch) != (operand.row, operand.batch) or not ofm.row or len(blocks) > 1:
        return ofm.shape[1]
    period = next((block for block, is_pixel_major in blocks if not is_pixel_major), 0)
    first, of_result = (
        (one.offset_bytes % period if period else one.offset_bytes) // one.row for one in (operand, ofm)
    )
    return min(max(stop + first - of_result, 0), ofm.shape[1])


def can_roll(kernels: Sequence[Kernel], storage: str) -> bool:
    """True when the rows of a storage that only these kernels touch can roll through a line buffer."""
    row, rows = None, None
    for kernel in kernels:
        operands = [operand for operand in kernel.operands if operand.storage == storage]
        if storage in kernel.reads and (kernel.arm is not None or not operands):
            return False
        for operand in operands:
            if not kernel.spatial or kernel.whole_input or not _rolls(operand):
                return False
            if row not in (None, operand.row) or rows not in (None, operand.shape[1]):
                return False
            row, rows = operand.row, operand.shape[1]
    return True


def _rolls(operand: Operand) -> bool:
    """True for one image whose rows are whole rows of its storage."""
    if operand.shape[0] != 1 or operand.row == 0:
        return False
    if operand.is_pixel_major:
        return operand.offset_bytes < operand.row
    return operand.offset_bytes == 0 and operand.block == operand.shape[1] * operand.row


def ring_rows(kernels: Sequence[Kernel], steps: Sequence[Step], storage: str) -> int:
    """Rows that a line buffer for `storage` must hold while `steps` run."""
    members = {step.kernel for step in steps}
    writers = {i for i in members if kernels[i].ofm.storage == storage}
    oldest = {i: _oldest(kernels[i], storage, 0) for i in members if storage in kernels[i].reads}
    most = 1
    for step in steps:
        at, y = step.kernel, step.y
        if at in writers:  # no two rows of one step share a place
            most = max(most, y.stop - min([y.start, *oldest.values()]))
        if at in oldest:
            oldest[at] = _oldest(kernels[at], storage, y.stop)
    return most


def _oldest(kernel: Kernel, storage: str, done: int) -> int:
    """First row of the storage that the kernel still reads after computing `done` of its rows."""
    rows = kernel.space[1]
    if done >= rows:
        return 1 << 30
    oldest = []
    if kernel.ifm is not None and kernel.ifm.storage == storage:
        oldest.append(kernel.input_rows(range(done, rows)).start)
    if kernel.ifm2 is not None and kernel.ifm2.storage == storage:
        oldest.append(done)
    return min(oldest)


class StripeBook:
    """Steps, line buffers and channel windows of groups, each worked out once: a search looks at the same groups again
    and again."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self.kernels = kernels
        self.slices = SliceBook(kernels)
        self._steps: dict[Group, list[Step]] = {}
        self._rows: dict[tuple[Group, str], int] = {}
        self._touching: dict[str, list[int]] = {}
        self._written: dict[str, Operand] = {}
        self._rolls: dict[str, bool] = {}
        for i, kernel in enumerate(kernels):
            self._written.setdefault(kernel.ofm.storage, kernel.ofm)
            for storage in {kernel.ofm.storage, *kernel.reads}:
                self._touching.setdefault(storage, []).append(i)

    def steps(self, group: Group) -> list[Step]:
        """Steps of a group in order."""
        if group not in self._steps:
            self._steps[group] = expand(self.kernels, group)
        return self._steps[group]

    def ring_rows(self, group: Group, storage: str) -> int:
        """Rows of the line buffer that a storage of the group needs; 0 when it must be held whole."""
        key = (group, storage)
        if key not in self._rows:
            rolls = group.stripes > 1 and self.can_ring(group, storage)
            rows = ring_rows(self.kernels, self.steps(group), storage) if rolls else 0
            written = (step.y for step in self.steps(group) if self.kernels[step.kernel].ofm.storage == storage)
            self._rows[key] = rows + group.spare * max(map(len, written), default=0) if rows else 0
        return self._rows[key]

    def can_ring(self, group: Group, storage: str) -> bool:
        """Whether a storage lives inside the group only and its rows can roll through a line buffer."""
        touching = self._touching[storage]
        if touching[0] < group.start or touching[-1] >= group.stop:
            return False
        if storage not in self._rolls:
            self._rolls[storage] = can_roll([self.kernels[i] for i in touching], storage)
        return self._rolls[storage]

    def written(self, storage: str) -> Operand:
        """What the first kernel that writes a storage says of it."""
        return self._written[storage]

    def window(self, group: Group, storage: str) -> int:
        """Channels of the window in which a storage of the group is held; 0 when it must be held whole."""
        return group.channels if group.channels and self.slices.fits_window(group.start, group.stop, storage) else 0
