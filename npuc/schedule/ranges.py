"""Row ranges: kernels of two units run beside each other where one reads row by row what the other writes.

Both are cut into a few ranges of rows, and the second starts on the first range while the first computes the next.
Every range costs its instructions and the ends of its blocks, so pairs are cut as the costs of their tasks say, or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from isa.instructions import BY_MNEMONIC, Queue
from isa.record import WORD_BYTES
from isa.target import Target
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import Request
from npuc.schedule.interleave import interleaved, moved
from npuc.schedule.stripes import Group, rows_read
from npuc.schedule.tile_model import instruction_bytes
from npuc.schedule.tiles import Blocks
from npuc.task.task import Call

COUNTS = (2, 4, 8)
"""Ranges tried for a kernel that is not cut yet."""

Stops = tuple[int, ...]
"""Ends of the ranges of a kernel's rows."""


@dataclass(frozen=True)
class _Cut:
    """The tasks of a kernel for all its rows, cut into ranges of rows."""

    whole: tuple[Request, ...]
    stops: Stops

    @property
    def kernel(self) -> Kernel:
        return self.whole[0].kernel

    @cached_property
    def ranges(self) -> list[range]:
        return [range(start, stop) for start, stop in zip((0, *self.stops[:-1]), self.stops, strict=True)]

    @cached_property
    def parts(self) -> list[list[Request]]:
        """The tasks of each range."""
        return [[replace(one, task=replace(one.task, y=y)) for one in self.whole] for y in self.ranges]


@dataclass
class _Ranges:
    """Kernels that run beside each other: `stops` of those that are cut, `follows`: whom one runs beside."""

    stops: dict[str, Stops] = field(default_factory=dict)
    follows: dict[str, str] = field(default_factory=dict)


def with_spare(kernels: Sequence[Kernel], groups: Iterable[Group], finer: int = 1) -> tuple[Group, ...]:
    """Groups with line buffers in which one unit writes a stripe while another one reads the stripe before; in `finer`
    times as many stripes."""
    return tuple(
        replace(group, stripes=group.stripes * finer, spare=1)
        if group.stripes > 1 and len({_queue(kernel) for kernel in kernels[group.start : group.stop]}) > 1
        else group
        for group in groups
    )


def _queue(kernel: Kernel) -> Queue:
    return Queue.ARM if kernel.arm is not None else BY_MNEMONIC[kernel.mnemonic].queue


class RangeBook:
    """Ranges of pairs of kernels, each worked out once."""

    def __init__(self, kernels: Iterable[Kernel], blocks: Blocks, target: Target) -> None:
        self._kernels = {kernel.node: kernel for kernel in kernels}
        self._blocks, self._target = blocks, target
        self._known: dict[tuple[str, int, str, int, Stops], tuple[Stops, Stops] | None] = {}

    def cut(
        self, requests: Sequence[Request | Call], spans: Sequence[range]
    ) -> tuple[list[Request | Call], list[range]]:
        """The tasks in ranges where that pays, in program order, and the span of each step; spans[i] is that of step i,
        which computes rows of one kernel."""
        ranges = self._choose(requests, spans)
        found: list[Request | Call] = []
        cut: list[range] = []
        for span in spans:
            part = requests[span.start : span.stop]
            stops = ranges.stops.get(_node(part[0]))
            if stops is not None:
                pieces = _Cut(tuple(one for one in part if isinstance(one, Request)), stops).parts
                part = [one for piece in pieces for one in piece]
            cut.append(range(len(found), len(found) + len(part)))
            found += part
        tasks = [request.task if isinstance(request, Request) else request for request in found]
        order = interleaved(self._kernels, tasks, ranges.follows)
        return [found[i] for i in order], moved(cut, order)

    def _choose(self, requests: Sequence[Request | Call], spans: Sequence[range]) -> _Ranges:
        """Ranges of the kernels that one step computes. Those that read weights in flash stay whole, as every range
        would read them again."""
        steps = [requests[span.start : span.stop] for span in spans]
        n_steps: dict[str, int] = {}
        for step in steps:
            n_steps[_node(step[0])] = n_steps.get(_node(step[0]), 0) + 1
        found = _Ranges()
        writer: dict[str, int] = {}
        for at, step in enumerate(steps):
            kernel = self._kernels[_node(step[0])]
            # a kernel can start once the latest of its producers has
            last = max((writer[name] for name in kernel.reads if name in writer), default=None)
            writer[kernel.ofm.storage] = at
            if last is not None and n_steps[kernel.node] == n_steps[_node(steps[last][0])] == 1:
                self._pair(_requests(steps[last]), _requests(step), found)
        return found

    def _pair(self, made: tuple[Request, ...], used: tuple[Request, ...], found: _Ranges) -> None:
        """Let the second of two kernels run beside the first where that pays."""
        if not _can_follow(made, used):
            return
        producer, kernel = made[0].kernel, used[0].kernel
        given = found.stops.get(producer.node, ())
        key = producer.node, len(made[0].task.c), kernel.node, len(used[0].task.c), given
        if key not in self._known:
            self._known[key] = self._best(made, used, given)
        chosen = self._known[key]
        if chosen is not None:
            found.follows[kernel.node] = producer.node
            found.stops[producer.node] = chosen[0]
            if kernel.space[0] == 1:
                found.stops[kernel.node] = chosen[1]

    def _best(self, made: tuple[Request, ...], used: tuple[Request, ...], given: Stops) -> tuple[Stops, Stops] | None:
        """Ranges of a producer, cut already if `given` says so, and of its reader with which the pair ends first; None
        where the reader had better wait for the whole."""
        producer, kernel = made[0].kernel, used[0].kernel
        single: Stops = (kernel.space[1],)
        options = [given] if given else [self._even(producer, count) for count in COUNTS]
        pairs = [
            (given or (producer.space[1],), single),
            *((stops, single if kernel.space[0] > 1 else self._ready(producer, kernel, stops)) for stops in options),
        ]
        cuts = [(_Cut(made, first), _Cut(used, second)) for first, second in pairs]
        self._blocks.prepare(task for pair in cuts for cut in pair for part in cut.parts for task in part)
        ends = [self._end(*pair, beside=at > 0) for at, pair in enumerate(cuts)]
        best = ends.index(min(ends))
        return pairs[best] if best else None

    def _even(self, kernel: Kernel, count: int) -> Stops:
        """Ends of `count` ranges of about the same size."""
        rows = kernel.space[1]
        return self._in_steps(kernel, (-(-rows * part // count) for part in range(1, count)))

    def _ready(self, producer: Kernel, kernel: Kernel, stops: Stops) -> Stops:
        """Ends of the ranges of a kernel that can be computed from ranges of its producer."""
        rows = kernel.space[1]
        needed = [rows_read(producer, kernel, range(y, y + 1)) for y in range(rows)]
        ready = (next((y for y in range(rows) if needed[y] > stop), rows) for stop in stops)
        return self._in_steps(kernel, ready)

    def _in_steps(self, kernel: Kernel, stops: Iterable[int]) -> Stops:
        """Ends of ranges where the array's steps end, and the last row."""
        step, rows = self._target.costs.mac_step_pixels_h if kernel.is_mac else 1, kernel.space[1]
        return tuple(sorted({stop // step * step for stop in stops if step <= stop < rows} | {rows}))

    def _end(self, first: _Cut, second: _Cut, *, beside: bool) -> int:
        """Cycles until the second kernel ends that starts behind the first, or beside it."""
        made, used = self._costs(first), self._costs(second)
        cycles = [sum(cost for cost, _ in costs) for costs in (made, used)]
        if not beside:
            return sum(cycles)
        board = self._target.board
        words = sum(words for _, words in (*made, *used)) if board.sram_shared_port else 0
        if second.kernel.space[0] > 1:  # images, evenly over the rows
            used, needed = [(cycles[1] // len(made), 0)] * len(made), list(first.stops)
        else:
            needed = [rows_read(first.kernel, second.kernel, y) for y in second.ranges]
        end = _beside(made, first.stops, used, needed)
        tasks = sum(len(part) * instruction_bytes(cut.kernel) for cut in (first, second) for part in cut.parts)
        return max(end, words * WORD_BYTES // board.sram_read_bytes_per_cycle) + tasks // board.flash_bytes_per_cycle

    def _costs(self, cut: _Cut) -> list[tuple[int, int]]:
        """Cycles and words of each range, run one after the other."""
        found = [[self._blocks.of(request) for request in part] for part in cut.parts]
        return [(sum(cost.cycles for cost in part), sum(cost.amounts.port_words for cost in part)) for part in found]


def _beside(
    made: Sequence[tuple[int, int]], stops: Stops, used: Sequence[tuple[int, int]], needed: Sequence[int]
) -> int:
    """When both units are done: range i of the second needs needed[i] rows, range j of the first ends at stops[j]."""
    written = end = at = 0
    for (cycles, _), rows in zip(used, needed, strict=True):
        while at < len(made) and (at == 0 or stops[at - 1] < rows):
            written += made[at][0]
            at += 1
        end = max(end, written) + cycles
    return max(end, sum(cycles for cycles, _ in made))


def _node(work: Request | Call) -> str:
    return work.kernel.node if isinstance(work, Request) else work.kernel


def _requests(step: Sequence[Request | Call]) -> tuple[Request, ...]:
    return tuple(work for work in step if isinstance(work, Request))


def _can_follow(made: Sequence[Request], used: Sequence[Request]) -> bool:
    """Whether two kernels of different units can be cut by rows, or the second computes many images, each of which
    needs a part of the first."""
    if not made or not used or any(one.streamed for one in (*made, *used)) or made[0].task.queue == used[0].task.queue:
        return False
    return _has_rows(made[0].kernel) and (used[0].kernel.space[0] > 1 or _has_rows(used[0].kernel))


def _has_rows(kernel: Kernel) -> bool:
    """Whether a kernel computes one image, row by row."""
    return kernel.spatial and not kernel.whole_input and kernel.space[0] == 1 and kernel.space[1] > 1
