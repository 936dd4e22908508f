"""The problem in the solvers' terms: units for bytes, maximal cliques for time, independent components."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from npuc.allocation.body import Member, Span, base_congruence, body_spans, common_alignment, fixed_base, rigid_bodies
from npuc.allocation.problem import MAX_BYTES, InvalidProblem, Problem

IntArray = npt.NDArray[np.int64]


class Rect(NamedTuple):
    """Units [low, high) above the body's base, occupied in the cliques first..last (both included)."""

    first: int
    last: int
    low: int
    high: int


class Body(NamedTuple):
    """A rigid set of disjoint rectangles; in units, base = residue (mod modulus), and base = fixed unless None.

    lifetime: in the problem's time. shifts: (buffer name, bytes above the base).
    """

    rects: tuple[Rect, ...]
    lifetime: int
    shifts: tuple[tuple[str, int], ...]
    modulus: int
    residue: int
    fixed: int | None

    @property
    def height(self) -> int:
        return max([rect.high for rect in self.rects])

    def lowest_base(self) -> int:
        return self.residue if self.fixed is None else self.fixed


@dataclass(frozen=True)
class Component:
    """Bodies that share no moment with the bodies of other components; bound is a lower bound of the peak, in units."""

    bodies: tuple[Body, ...]
    n_cliques: int
    bound: int

    @cached_property
    def rects(self) -> IntArray:
        """Columns first, last, low, high of all rectangles, body after body [n rects, 4]."""
        return _rects(self.bodies)

    @cached_property
    def rect_start(self) -> IntArray:
        """Of which body i owns rows rect_start[i] to rect_start[i + 1]."""
        return np.cumsum([0, *(len(body.rects) for body in self.bodies)])

    @cached_property
    def heights(self) -> IntArray:
        """Of the bodies, in units."""
        return np.maximum.reduceat(self.rects[:, 3], self.rect_start[:-1])


@dataclass(frozen=True)
class NormalForm:
    """unit: bytes per unit. Some placement of minimal peak has every base at a whole number of units."""

    unit: int
    components: tuple[Component, ...]

    @property
    def bound(self) -> int:
        return max((component.bound for component in self.components), default=0)


def normalize(problem: Problem) -> NormalForm:
    """Raises InvalidProblem if the groups, alignments and fixed offsets contradict each other."""
    groups = rigid_bodies(problem)
    alignment = common_alignment(groups)
    spans = [body_spans(group, alignment) for group in groups]
    unit = _unit(groups, spans)
    parts = _independent(zip(groups, spans, strict=True))
    return NormalForm(unit, tuple(_component(part, unit) for part in parts))


def live_sums(rects: IntArray, n_cliques: int) -> IntArray:
    """Units live in each clique [n_cliques], from rows first, last, low, high."""
    first, last, low, high = rects.T
    change = np.zeros(n_cliques + 1, np.int64)
    np.add.at(change, first, high - low)
    np.add.at(change, last + 1, low - high)
    return np.cumsum(change)[:-1]


def _rects(bodies: Sequence[Body]) -> IntArray:
    return np.array([rect for body in bodies for rect in body.rects], np.int64)


def maximal_cliques(spans: Iterable[Span]) -> list[int]:
    """One moment inside each maximal set of simultaneously live spans, ascending.

    A set can grow no more where a start is followed by an end before the next start.
    """
    ordered = list(spans)
    ends = {span.upper for span in ordered}
    moments = sorted({span.lower for span in ordered} | ends)
    starts = {span.lower for span in ordered}
    cliques: list[int] = []
    latest: int | None = None
    for moment in moments:
        if moment in ends and latest is not None:
            cliques.append(latest)
            latest = None
        if moment in starts:
            latest = moment
    return cliques


Part = list[tuple[tuple[Member, ...], tuple[Span, ...]]]


def _unit(groups: Sequence[tuple[Member, ...]], spans: Sequence[tuple[Span, ...]]) -> int:
    """Largest unit that divides every extent and, of each alignment, is a divisor or a multiple.

    Pushing bodies down one by one then keeps every base at a multiple of the unit, so no optimum is lost.
    """
    extents = {edge for body in spans for span in body for edge in (span.low, span.high)}
    extents |= {member.shift for group in groups for member in group}
    extents |= {m.buffer.fixed_offset for group in groups for m in group if m.buffer.fixed_offset is not None}
    alignments = {member.buffer.alignment_bytes for group in groups for member in group}
    unit = math.gcd(*extents) or 1
    while clashing := [a for a in alignments if a % unit and unit % a]:
        unit = math.gcd(unit, *clashing)
    return unit


def _independent(pieces: Iterable[tuple[tuple[Member, ...], tuple[Span, ...]]]) -> list[Part]:
    """Cut where no body's hull, from its first to its last moment, crosses."""
    parts: list[Part] = []
    reach: int | None = None
    for group, spans in sorted(pieces, key=lambda piece: min(span.lower for span in piece[1])):
        if reach is None or min(span.lower for span in spans) >= reach:
            parts.append([])
            reach = None
        upper = max(span.upper for span in spans)
        reach = upper if reach is None else max(reach, upper)
        parts[-1].append((group, spans))
    return parts


def _component(part: Part, unit: int) -> Component:
    cliques = maximal_cliques(span for _, spans in part for span in spans)
    bodies = tuple(_body(group, spans, cliques, unit) for group, spans in part)
    n_cliques = len(cliques)
    _check_fixed(bodies)
    reach = max(body.lowest_base() + body.height for body in bodies)
    return Component(bodies, n_cliques, max(int(live_sums(_rects(bodies), n_cliques).max()), reach))


def _body(group: tuple[Member, ...], spans: tuple[Span, ...], cliques: list[int], unit: int) -> Body:
    modulus, residue = base_congruence(group)
    if modulus > MAX_BYTES:
        raise InvalidProblem(f"buffer {group[0].buffer.name}: alignments of its contiguous group combine to {modulus}")
    fixed = fixed_base(group)
    if fixed is not None and fixed % modulus != residue:
        raise InvalidProblem(f"buffer {group[0].buffer.name}: fixed offsets misalign another buffer of its group")
    coarse = max(1, modulus // unit)  # the unit divides the modulus, or is its multiple
    return Body(
        rects=tuple(_rect(span, cliques, unit) for span in spans),
        lifetime=sum(span.upper - span.lower for span in spans),
        shifts=tuple((member.buffer.name, member.shift) for member in group),
        modulus=coarse,
        residue=residue // unit % coarse,
        fixed=None if fixed is None else fixed // unit,
    )


def _rect(span: Span, cliques: list[int], unit: int) -> Rect:
    first, end = bisect_left(cliques, span.lower), bisect_left(cliques, span.upper)
    return Rect(first, end - 1, span.low // unit, span.high // unit)


def _check_fixed(bodies: tuple[Body, ...]) -> None:
    """Raise InvalidProblem if fixed bodies overlap."""
    fixed = [(body.fixed, rect, body) for body in bodies if body.fixed is not None for rect in body.rects]
    for (base, rect, body), (other_base, other, other_body) in combinations(fixed, 2):
        both_live = rect.first <= other.last and other.first <= rect.last
        if both_live and base + rect.low < other_base + other.high and other_base + other.low < base + rect.high:
            names = f"{body.shifts[0][0]} and {other_body.shifts[0][0]}"
            raise InvalidProblem(f"buffers {names}: fixed offsets make live buffers overlap")
