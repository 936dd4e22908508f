"""Which buffers are live when the most bytes are: where a memory shortage has to be solved."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import accumulate

from npuc.allocation.body import Span, body_spans, common_alignment, rigid_bodies
from npuc.allocation.problem import Problem


def live_at_peak(problem: Problem) -> tuple[tuple[str, int], ...]:
    """(name, size in bytes) of all buffers live at the busiest moment, the earliest one; the largest first.

    Bytes that aliases share count once when the moment is chosen. Raises InvalidProblem.
    """
    bodies = rigid_bodies(problem)
    unit = common_alignment(bodies)
    moment = _busiest_moment(span for body in bodies for span in body_spans(body, unit))
    live = [(buffer.name, buffer.size_bytes) for buffer in problem.buffers if buffer.lower <= moment < buffer.upper]
    return tuple(sorted(live, key=lambda item: -item[1]))


def _busiest_moment(spans: Iterable[Span]) -> int:
    change: dict[int, int] = defaultdict(int)
    for span in spans:
        change[span.lower] += span.high - span.low
        change[span.upper] -= span.high - span.low
    moments = sorted(change)
    live = list(accumulate(change[moment] for moment in moments))
    return moments[live.index(max(live))] if live else 0
