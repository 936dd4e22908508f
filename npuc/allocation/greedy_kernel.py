"""Constructive placements on arrays: bodies set down one after the other, in a gap or on the skyline.

Compiled where numba is installed, and the same as Python where it is not.
"""

from __future__ import annotations

from isa.timing.compiled import compiled
from npuc.allocation.normal_form import IntArray

FAR = 1 << 62
FREE = -1
"""In FIXED: the body may lie anywhere."""
MODULUS, RESIDUE, FIXED = range(3)
"""Columns of `bodies`: the base is RESIDUE modulo MODULUS, and FIXED unless FREE."""
FIRST, LAST, LOW, HIGH = range(4)
"""Columns of `rects`, of which body i owns rect_start[i] to rect_start[i + 1], and of `placed`: cliques, then units."""
TOP, FLOOR = range(2)
"""Rows of gaps: where a gap below something ends, and where the one above it begins."""


@compiled
def fill_gaps(order: IntArray, bodies: IntArray, rect_start: IntArray, rects: IntArray, is_tight: bool,
              placed: IntArray, gaps: IntArray, run: IntArray, bases: IntArray) -> None:  # fmt: skip
    """Place bodies by `order`, each in the lowest gap that holds it, or `is_tight`: in the one that leaves the least
    room, the lowest on ties.

    placed [n rects, 4], sorted by LOW; gaps, run [2, n rects times the most rects of a body] are scratch.
    """
    n_placed = 0
    for body in order:
        base = bodies[body, FIXED]
        if base == FREE:
            n_gaps = 0
            for rect in range(rect_start[body], rect_start[body + 1]):
                n_gaps = _add_gaps(rects[rect], placed, n_placed, gaps, n_gaps, run)
            base = _base_in_gap(bodies[body, MODULUS], bodies[body, RESIDUE], gaps, n_gaps, is_tight)
        bases[body] = base
        for rect in range(rect_start[body], rect_start[body + 1]):
            _insert(rects[rect], base, placed, n_placed)
            n_placed += 1


@compiled
def _add_gaps(rect: IntArray, placed: IntArray, n_placed: int, gaps: IntArray, n_gaps: int, run: IntArray) -> int:
    """Merge what bounds the base of a body because of one of its rectangles into `gaps`, sorted by TOP."""
    n_run = 0
    for p in range(n_placed):
        if placed[p, FIRST] <= rect[LAST] and placed[p, LAST] >= rect[FIRST]:
            run[TOP, n_run] = placed[p, LOW] - rect[HIGH]
            run[FLOOR, n_run] = placed[p, HIGH] - rect[LOW]
            n_run += 1
    total = n_gaps + n_run
    at = total
    while n_run > 0:
        at -= 1
        if n_gaps > 0 and gaps[TOP, n_gaps - 1] > run[TOP, n_run - 1]:
            n_gaps -= 1
            gaps[TOP, at], gaps[FLOOR, at] = gaps[TOP, n_gaps], gaps[FLOOR, n_gaps]
        else:
            n_run -= 1
            gaps[TOP, at], gaps[FLOOR, at] = run[TOP, n_run], run[FLOOR, n_run]
    return total


@compiled
def _base_in_gap(modulus: int, residue: int, gaps: IntArray, n_gaps: int, is_tight: bool) -> int:
    floor, base, least = 0, 0, FAR + 1
    for gap in range(n_gaps + 1):
        low = floor + (residue - floor) % modulus
        room = (gaps[TOP, gap] if gap < n_gaps else FAR) - low
        if 0 <= room < least:
            base, least = low, room
            if not is_tight:
                break
        if gap < n_gaps:
            floor = max(floor, gaps[FLOOR, gap])
    return int(base)


@compiled
def _insert(rect: IntArray, base: int, placed: IntArray, n_placed: int) -> None:
    at = n_placed
    while at > 0 and placed[at - 1, LOW] > base + rect[LOW]:
        placed[at] = placed[at - 1]
        at -= 1
    placed[at, FIRST], placed[at, LAST] = rect[FIRST], rect[LAST]
    placed[at, LOW], placed[at, HIGH] = base + rect[LOW], base + rect[HIGH]


@compiled
def raise_skyline(order: IntArray, bodies: IntArray, rect_start: IntArray, rects: IntArray, owner: IntArray,
                  support: IntArray, waiting: IntArray, bases: IntArray) -> None:  # fmt: skip
    """Fill no holes: each step sets down the body that comes to rest lowest, the first in the order on ties.

    `order` begins with the fixed bodies; owner [n rects]: body of a rectangle; support, waiting [n] are scratch.
    """
    support[:] = 0
    waiting[:] = 1
    for step in range(len(order)):
        body, base = order[step], bodies[order[step], FIXED]
        if base == FREE:
            base = FAR
            for other in order:
                low = support[other] + (bodies[other, RESIDUE] - support[other]) % bodies[other, MODULUS]
                if waiting[other] and low < base:
                    body, base = other, low
        bases[body] = base
        waiting[body] = 0
        for rect in range(rect_start[body], rect_start[body + 1]):
            for other in range(len(rects)):
                if rects[other, FIRST] <= rects[rect, LAST] and rects[other, LAST] >= rects[rect, FIRST]:
                    at = owner[other]
                    support[at] = max(support[at], base + rects[rect, HIGH] - rects[other, LOW])
