"""The slow, obvious allocator: the smallest peak over all offsets, for problems of a few tiny buffers."""

from dataclasses import replace
from itertools import count, pairwise
from math import gcd

from npuc.allocation import Buffer, Problem

Placed = list[tuple[Buffer, int]]


def smallest_peak(problem: Problem) -> int:
    """Sizes count rounded up to the common alignment. Never returns if the constraints contradict each other."""
    unit = gcd(*(buffer.alignment_bytes for buffer in problem.buffers))
    rounded = [replace(b, size_bytes=-(-b.size_bytes // unit) * unit) for b in problem.buffers]
    return next(peak for peak in count(1) if _fits(problem, rounded, [], peak))


def _fits(problem: Problem, waiting: list[Buffer], placed: Placed, peak: int) -> bool:
    if not waiting:
        return _ties_hold(problem, {buffer.name: offset for buffer, offset in placed})
    buffer, *rest = waiting
    return any(
        _fits(problem, rest, [*placed, (buffer, offset)], peak)
        for offset in range(0, peak - buffer.size_bytes + 1, buffer.alignment_bytes)
        if buffer.fixed_offset in (None, offset)
        and all(_share(problem, buffer, other) or _is_apart(buffer, offset, other, at) for other, at in placed)
    )


def _ties_hold(problem: Problem, offsets: dict[str, int]) -> bool:
    sizes = {buffer.name: buffer.size_bytes for buffer in problem.buffers}
    pairs = [pair for group in problem.contiguous for pair in pairwise(group)]
    return all(len({offsets[name] for name in group}) <= 1 for group in problem.aliases) and all(
        offsets[left] + sizes[left] == offsets[right] for left, right in pairs
    )


def _share(problem: Problem, a: Buffer, b: Buffer) -> bool:
    return any(a.name in group and b.name in group for group in problem.aliases)


def _is_apart(a: Buffer, at_a: int, b: Buffer, at_b: int) -> bool:
    in_time = a.upper <= b.lower or b.upper <= a.lower
    return in_time or at_a + a.size_bytes <= at_b or at_b + b.size_bytes <= at_a
