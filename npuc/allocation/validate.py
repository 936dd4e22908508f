"""The checker: judges a placement from the problem statement alone, sharing no code with the solvers."""

from collections.abc import Iterator
from itertools import combinations, pairwise

from npuc.allocation.placement import Placement
from npuc.allocation.problem import Buffer, Problem


class InvalidPlacement(ValueError):
    """The placement breaks a constraint; the message names the buffers."""


def validate_placement(problem: Problem, placement: Placement) -> None:
    """Raise InvalidPlacement unless every constraint of the problem holds and peak and bound are consistent.

    Compares every pair of buffers: slow and obvious.
    """
    for check in (_missing, _misplaced, _torn_apart, _overlapping, _inconsistent):
        for message in check(problem, placement):
            raise InvalidPlacement(message)


def _missing(problem: Problem, placement: Placement) -> Iterator[str]:
    names = {buffer.name for buffer in problem.buffers}
    yield from (f"{name} has no offset" for name in sorted(names - placement.offsets.keys()))
    yield from (f"{name} is placed but is not a buffer" for name in sorted(placement.offsets.keys() - names))


def _misplaced(problem: Problem, placement: Placement) -> Iterator[str]:
    for buffer in problem.buffers:
        offset, size = placement.offsets[buffer.name], buffer.size_bytes
        if offset < 0 or offset + size > placement.peak_bytes:
            yield f"{buffer.name} at [{offset}, {offset + size}) leaves the arena [0, {placement.peak_bytes})"
        if offset % buffer.alignment_bytes:
            yield f"{buffer.name} at {offset} is not aligned to {buffer.alignment_bytes}"
        if buffer.fixed_offset not in (None, offset):
            yield f"{buffer.name} is at {offset}, fixed at {buffer.fixed_offset}"


def _torn_apart(problem: Problem, placement: Placement) -> Iterator[str]:
    sizes = {buffer.name: buffer.size_bytes for buffer in problem.buffers}
    offsets = placement.offsets
    for left, right in (pair for group in problem.aliases for pair in pairwise(group)):
        if offsets[left] != offsets[right]:
            yield f"{left} at {offsets[left]} and {right} at {offsets[right]} are aliases"
    for left, right in (pair for group in problem.contiguous for pair in pairwise(group)):
        if offsets[left] + sizes[left] != offsets[right]:
            yield f"{right} at {offsets[right]} does not follow {left} [{offsets[left]}, {offsets[left] + sizes[left]})"


def _overlapping(problem: Problem, placement: Placement) -> Iterator[str]:
    shares = _alias_sets(problem)
    for a, b in combinations(problem.buffers, 2):
        both_live = max(a.lower, b.lower) < min(a.upper, b.upper)
        if both_live and b.name not in shares[a.name] and _intersect(a, b, placement.offsets):
            yield f"{_shown(a, placement)} and {_shown(b, placement)} overlap"


def _inconsistent(problem: Problem, placement: Placement) -> Iterator[str]:
    if placement.bound_bytes > placement.peak_bytes:
        yield f"peak {placement.peak_bytes} is below its bound {placement.bound_bytes}"
    if problem.capacity_bytes is not None and placement.peak_bytes > problem.capacity_bytes:
        yield f"peak {placement.peak_bytes} exceeds the capacity {problem.capacity_bytes}"


def _intersect(a: Buffer, b: Buffer, offsets: dict[str, int]) -> bool:
    low_a, low_b = offsets[a.name], offsets[b.name]
    return max(low_a, low_b) < min(low_a + a.size_bytes, low_b + b.size_bytes)


def _shown(buffer: Buffer, placement: Placement) -> str:
    offset = placement.offsets[buffer.name]
    return f"{buffer.name} [{offset}, {offset + buffer.size_bytes}) live [{buffer.lower}, {buffer.upper})"


def _alias_sets(problem: Problem) -> dict[str, set[str]]:
    sets = {buffer.name: {buffer.name} for buffer in problem.buffers}
    for group in problem.aliases:
        merged = set().union(*(sets[name] for name in group))
        sets.update(dict.fromkeys(merged, merged))
    return sets
