"""Ranges of real values, and the choice among candidate ranges."""

from collections.abc import Sequence

Range = tuple[float, float]
"""(lo, hi), lo <= hi, in the unit of the tensor."""

RELATIVE_TIE = 1e-9
ABSOLUTE_TIE = 1e-12


def clip_range(bounds: Range, threshold: float) -> Range:
    """`bounds` cut to [-threshold, threshold]: the longer side gives way first."""
    return max(bounds[0], -threshold), min(bounds[1], threshold)


def first_least(costs: Sequence[float]) -> int:
    """Index of the first cost that equals the least one up to rounding.

    Logarithms and sums differ in their last bits between processors; a table must not, so near ties go to the first.
    """
    least = min(costs)
    limit = least + abs(least) * RELATIVE_TIE + ABSOLUTE_TIE
    return next(index for index, cost in enumerate(costs) if cost <= limit)
