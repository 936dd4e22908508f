"""The slow, obvious allocator: the smallest peak over all offsets, for problems of a few tiny buffers."""

from itertools import count

from npuc.allocation import Buffer


def smallest_peak(buffers: tuple[Buffer, ...]) -> int:
    return next(peak for peak in count(1) if _fits(list(buffers), [], peak))


def _fits(waiting: list[Buffer], placed: list[tuple[Buffer, int]], peak: int) -> bool:
    if not waiting:
        return True
    buffer, *rest = waiting
    offsets = range(0, peak - buffer.size_bytes + 1, buffer.alignment_bytes)
    return any(
        _fits(rest, [*placed, (buffer, offset)], peak)
        for offset in offsets
        if all(_is_apart(buffer, offset, other, at) for other, at in placed)
    )


def _is_apart(a: Buffer, at_a: int, b: Buffer, at_b: int) -> bool:
    in_time = a.upper <= b.lower or b.upper <= a.lower
    return in_time or at_a + a.size_bytes <= at_b or at_b + b.size_bytes <= at_a
