"""Rigid bodies: buffers that aliases and contiguity tie together move as one."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

from npuc.allocation.problem import Buffer, InvalidProblem, Problem

Links = dict[str, list[tuple[str, int]]]


class Member(NamedTuple):
    """A buffer that starts `shift` bytes above its body's base; `alias_class` members may share bytes."""

    buffer: Buffer
    shift: int
    alias_class: int


class Span(NamedTuple):
    """Bytes [low, high) above the body's base, occupied during the half-open time [lower, upper)."""

    lower: int
    upper: int
    low: int
    high: int


def rigid_bodies(problem: Problem) -> tuple[tuple[Member, ...], ...]:
    """Group the buffers by their ties, in order of first appearance; the smallest shift of each body is 0.

    Raises InvalidProblem when ties contradict each other or force two live buffers onto the same bytes.
    """
    if not problem.aliases and not problem.contiguous:  # most problems, and a search asks for many
        return tuple((Member(buffer, 0, i),) for i, buffer in enumerate(problem.buffers))
    buffers = {buffer.name: buffer for buffer in problem.buffers}
    alias_class = {name: i for i, body in enumerate(_connected(buffers, _alias_links(problem))) for name in body}
    bodies = []
    for shifts in _connected(buffers, _all_links(problem, buffers)):
        lowest = min(shifts.values())
        body = tuple(Member(buffers[name], shift - lowest, alias_class[name]) for name, shift in shifts.items())
        _check_no_clash(body)
        bodies.append(body)
    return tuple(bodies)


def common_alignment(bodies: Iterable[tuple[Member, ...]]) -> int:
    """Greatest common divisor of all alignments in bytes: no offset is off it, so sizes may be rounded up to it."""
    return math.gcd(*(member.buffer.alignment_bytes for body in bodies for member in body)) or 1


def base_congruence(body: tuple[Member, ...]) -> tuple[int, int]:
    """(modulus, residue) in bytes such that base = residue (mod modulus) aligns every member.

    Raises InvalidProblem when no base does.
    """
    modulus = body[0].buffer.alignment_bytes
    residue = -body[0].shift % modulus
    for member in body[1:]:
        alignment = member.buffer.alignment_bytes
        merged = _merge_congruences(modulus, residue, alignment, -member.shift % alignment)
        if merged is None:
            first, name = body[0].buffer.name, member.buffer.name
            raise InvalidProblem(f"buffers {first} and {name}: no address aligns both while they are contiguous")
        modulus, residue = merged
    return modulus, residue


def fixed_base(body: tuple[Member, ...]) -> int | None:
    """The base in bytes that the members' fixed offsets ask for; None if none is fixed. Raises InvalidProblem."""
    fixed = [(m.buffer.fixed_offset - m.shift, m.buffer.name) for m in body if m.buffer.fixed_offset is not None]
    for (base, name), (other_base, other) in pairwise(fixed):
        if base != other_base:
            raise InvalidProblem(f"buffers {name} and {other}: fixed offsets contradict their group")
    if fixed and fixed[0][0] < 0:
        raise InvalidProblem(f"buffer {fixed[0][1]}: fixed offset puts its contiguous group below address 0")
    return fixed[0][0] if fixed else None


def body_spans(body: tuple[Member, ...], unit: int) -> tuple[Span, ...]:
    """What the body occupies over time, sizes rounded up to `unit` bytes; spans of one body are disjoint."""
    boxes = [_rounded_box(member, unit) for member in body]
    if len(boxes) == 1:
        return tuple(boxes)
    times = sorted({box.lower for box in boxes} | {box.upper for box in boxes})
    spans: list[Span] = []
    growing: dict[tuple[int, int], int] = {}
    for lower, upper in pairwise(times):
        ranges = list(_union((box.low, box.high) for box in boxes if box.lower <= lower < box.upper))
        still = {extent: growing.get(extent, lower) for extent in ranges}
        spans += (Span(start, lower, *extent) for extent, start in growing.items() if extent not in still)
        growing = still
        if upper == times[-1]:
            spans += (Span(start, upper, *extent) for extent, start in growing.items())
    return tuple(spans)


def _rounded_box(member: Member, unit: int) -> Span:
    buffer = member.buffer
    return Span(buffer.lower, buffer.upper, member.shift, member.shift - (-buffer.size_bytes // unit) * unit)


def _alias_links(problem: Problem) -> Links:
    links: Links = defaultdict(list)
    for group in problem.aliases:
        for left, right in pairwise(group):
            _tie(links, left, right, 0)
    return links


def _all_links(problem: Problem, buffers: dict[str, Buffer]) -> Links:
    links = _alias_links(problem)
    for group in problem.contiguous:
        for left, right in pairwise(group):
            _tie(links, left, right, buffers[left].size_bytes)
    return links


def _tie(links: Links, left: str, right: str, shift: int) -> None:
    links[left].append((right, shift))
    links[right].append((left, -shift))


def _connected(names: Iterable[str], links: Links) -> Iterator[dict[str, int]]:
    """Each connected set of names with the shift of each from the first. Raises InvalidProblem on a contradiction."""
    seen: set[str] = set()
    for name in names:
        if name not in seen:
            shifts = _reachable(name, links)
            seen.update(shifts)
            yield shifts


def _reachable(start: str, links: Links) -> dict[str, int]:
    shifts = {start: 0}
    queue = [start]
    for name in queue:
        for other, shift in links.get(name, ()):
            if other not in shifts:
                shifts[other] = shifts[name] + shift
                queue.append(other)
            elif shifts[other] != shifts[name] + shift:
                raise InvalidProblem(f"buffers {name} and {other}: alias and contiguous groups contradict each other")
    return shifts


def _check_no_clash(body: tuple[Member, ...]) -> None:
    for a, b in combinations(body, 2):
        if a.alias_class != b.alias_class and _overlap(a, b):
            raise InvalidProblem(f"buffers {a.buffer.name} and {b.buffer.name}: groups make live buffers overlap")


def _overlap(a: Member, b: Member) -> bool:
    in_time = a.buffer.lower < b.buffer.upper and b.buffer.lower < a.buffer.upper
    return in_time and a.shift < b.shift + b.buffer.size_bytes and b.shift < a.shift + a.buffer.size_bytes


def _merge_congruences(m: int, r: int, n: int, s: int) -> tuple[int, int] | None:
    """Solve x = r (mod m), x = s (mod n) by the Chinese remainder theorem; None if there is no solution."""
    common = math.gcd(m, n)
    if (s - r) % common:
        return None
    steps = (s - r) // common * pow(m // common, -1, n // common) % (n // common)
    modulus = m // common * n
    return modulus, (r + m * steps) % modulus


def _union(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge overlapping and touching ranges, in ascending order."""
    current: tuple[int, int] | None = None
    for low, high in sorted(ranges):
        if current and low <= current[1]:
            current = current[0], max(current[1], high)
            continue
        if current:
            yield current
        current = low, high
    if current:
        yield current
