"""Constructive placements on arrays: bodies set down one after the other, in a gap or on the skyline.

A body only looks at those that are live at the same time, so a network of many short-lived buffers takes time in
proportion to its length. Compiled where numba is installed, and the same as Python where it is not.
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
"""Columns of `rects`: cliques, then units."""
OTHER, DROP, RISE = range(3)
"""Columns of `pairs`, of which body i owns pair_start[i] to pair_start[i + 1]: beside body OTHER at base b, body i
ends below it at b + DROP or lower, and rests on it at b + RISE or higher."""
TOP, FLOOR = range(2)
"""Rows of gaps: where a gap below something ends, and where the one above it begins."""


@compiled
def pair_up(owner: IntArray, order: IntArray, stop: IntArray, rects: IntArray, at: IntArray, pairs: IntArray) -> None:
    """Count the pairs of rectangles of different bodies that are live at one time, and write them unless `pairs` is
    empty, each body's from `at` [n bodies] on, which moves behind them.

    owner [n rects]: body of a rectangle; order: rectangles by FIRST, of which place p overlaps those up to stop[p].
    """
    for place in range(len(order)):
        a = order[place]
        for after in range(place + 1, stop[place]):
            b = order[after]
            if owner[a] != owner[b]:
                if len(pairs):
                    _write(owner[b], rects[a], rects[b], pairs[at[owner[a]]])
                    _write(owner[a], rects[b], rects[a], pairs[at[owner[b]]])
                at[owner[a]] += 1
                at[owner[b]] += 1


@compiled
def _write(other: int, rect: IntArray, beside: IntArray, pair: IntArray) -> None:
    pair[OTHER], pair[DROP], pair[RISE] = other, beside[LOW] - rect[HIGH], beside[HIGH] - rect[LOW]


@compiled
def fill_gaps(order: IntArray, bodies: IntArray, pair_start: IntArray, pairs: IntArray, is_tight: bool,
              gaps: IntArray, bases: IntArray) -> None:  # fmt: skip
    """Place bodies by `order`, each in the lowest gap that holds it, or `is_tight`: in the one that leaves the least
    room, the lowest on ties.

    gaps [2, most pairs of a body] is scratch.
    """
    bases[:] = FREE
    for body in order:
        bases[body] = bodies[body, FIXED]
        if bases[body] == FREE:
            n_gaps = 0
            for pair in range(pair_start[body], pair_start[body + 1]):
                at = bases[pairs[pair, OTHER]]
                if at != FREE:
                    gaps[TOP, n_gaps] = at + pairs[pair, DROP]
                    gaps[FLOOR, n_gaps] = at + pairs[pair, RISE]
                    n_gaps += 1
            bases[body] = _base_in_gap(bodies[body, MODULUS], bodies[body, RESIDUE], gaps, n_gaps, is_tight)


@compiled
def _base_in_gap(modulus: int, residue: int, gaps: IntArray, n_gaps: int, is_tight: bool) -> int:
    """Gaps come by ascending TOP from a heap, as the first of them often does."""
    for at in range(n_gaps // 2 - 1, -1, -1):
        _sift(gaps, at, n_gaps)
    floor, base, least = 0, 0, FAR + 1
    while True:
        low = floor + (residue - floor) % modulus
        room = (gaps[TOP, 0] if n_gaps else FAR) - low
        if 0 <= room < least:
            base, least = low, room
            if not is_tight:
                break
        if not n_gaps:
            break
        floor = max(floor, gaps[FLOOR, 0])
        n_gaps -= 1
        gaps[TOP, 0], gaps[FLOOR, 0] = gaps[TOP, n_gaps], gaps[FLOOR, n_gaps]
        _sift(gaps, 0, n_gaps)
    return int(base)


@compiled
def _sift(gaps: IntArray, at: int, n_gaps: int) -> None:
    """Let the gap at `at` sink in the heap until none below it ends lower."""
    top, floor = gaps[TOP, at], gaps[FLOOR, at]
    while 2 * at + 1 < n_gaps:
        child = 2 * at + 1
        if child + 1 < n_gaps and gaps[TOP, child + 1] < gaps[TOP, child]:
            child += 1
        if gaps[TOP, child] >= top:
            break
        gaps[TOP, at], gaps[FLOOR, at] = gaps[TOP, child], gaps[FLOOR, child]
        at = child
    gaps[TOP, at], gaps[FLOOR, at] = top, floor


@compiled
def raise_skyline(order: IntArray, bodies: IntArray, pair_start: IntArray, pairs: IntArray, place: IntArray,
                  rests: IntArray, bases: IntArray) -> None:  # fmt: skip
    """Fill no holes: each step sets down the body that comes to rest lowest, the first in the order on ties.

    `order` begins with the fixed bodies. Scratch: place [n], where a body stands in the order; rests [2 * 2^k], with
    2^k at least n, where the bodies would come to rest, in the second half, as the leaves of a tree of the lowest.
    """
    n_leaves = len(rests) // 2
    rests[:] = FAR
    for step in range(len(order)):
        place[order[step]] = step
        rests[n_leaves + step] = bodies[order[step], RESIDUE]
    for node in range(n_leaves - 1, 0, -1):
        rests[node] = min(rests[2 * node], rests[2 * node + 1])
    for step in range(len(order)):
        at = n_leaves + step
        if bodies[order[step], FIXED] == FREE:
            at = 1
            while at < n_leaves:
                at = 2 * at + (rests[2 * at] != rests[at])
        body = order[at - n_leaves]
        base = bodies[body, FIXED] if bodies[body, FIXED] != FREE else rests[at]
        bases[body] = base
        _set_rest(rests, at, FAR)
        for pair in range(pair_start[body], pair_start[body + 1]):
            other = pairs[pair, OTHER]
            at = n_leaves + place[other]
            low = base - pairs[pair, DROP]
            if rests[at] < low:  # so not of one that lies
                _set_rest(rests, at, low + (bodies[other, RESIDUE] - low) % bodies[other, MODULUS])


@compiled
def _set_rest(rests: IntArray, at: int, rest: int) -> None:
    """Change a leaf and what it decides."""
    rests[at] = rest
    while at > 1:
        at //= 2
        lowest = min(rests[2 * at], rests[2 * at + 1])
        if rests[at] == lowest:
            break
        rests[at] = lowest
