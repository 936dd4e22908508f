"""Program order of kernels that run beside each other: a task stands behind the last one that it depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isa.instructions import Queue
from npuc.lower.kernel import Kernel
from npuc.task.accesses import Interval, Touched, touched
from npuc.task.task import Work


def interleaved(kernels: Mapping[str, Kernel], tasks: Sequence[Work], follows: Mapping[str, str]) -> list[int]:
    """Places of the tasks in program order, where follows[k] is the kernel beside which kernel k runs.

    Tasks of one queue keep their order, and so do tasks that touch the same bytes; storages are held whole.
    """
    whole = dict.fromkeys((item.storage for kernel in kernels.values() for item in kernel.operands), 0)
    first: dict[str, int] = {}
    known: dict[int, Touched] = {}
    key: list[int] = []
    last: dict[Queue, int] = {}
    for i, task in enumerate(tasks):
        first.setdefault(task.kernel, i)
        key.append(i)
        if task.kernel in follows:
            low = first[follows[task.kernel]]
            for j in range(low, i + 1):
                if j not in known:
                    known[j] = touched(kernels[tasks[j].kernel], tasks[j], whole, is_streamed=True)
            others = (j for j in range(low, i) if tasks[j].queue != task.queue)
            needed = [key[j] for j in others if _meet(known[j], known[i])]
            key[i] = max([low, last.get(task.queue, 0), *needed])
        last[task.queue] = key[i]
    return sorted(range(len(tasks)), key=lambda i: (key[i], i))


def moved(spans: Sequence[range], order: Sequence[int]) -> list[range]:
    """Spans of tasks once the tasks stand in this order: what a later span touches is there as long, and what an
    earlier one touches as early."""
    place = [0] * len(order)
    for position, i in enumerate(order):
        place[i] = position
    starts = [min((place[i] for i in span), default=len(order)) for span in spans]
    stops = [max((place[i] for i in span), default=-1) + 1 for span in spans]
    for at in range(len(spans) - 2, -1, -1):
        starts[at] = min(starts[at], starts[at + 1])
    for at in range(1, len(spans)):
        stops[at] = max(stops[at], stops[at - 1])
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]


def _meet(first: Touched, second: Touched) -> bool:
    """Whether two tasks must keep their order: one writes what the other touches."""
    pairs = ((first.writes, second.reads), (first.reads, second.writes), (first.writes, second.writes))
    return any(_overlap(*pair) for pair in pairs)


def _overlap(first: Sequence[Interval], second: Sequence[Interval]) -> bool:
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in first for b in second)
