"""Depth-first search for a packing below a height: bodies are stacked one by one, none below the one before.

The ideas are those of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning"
(ASPLOS 2023): canonical order, section inference, dominance. Node d of the current branch has d bodies placed; its row
of `base` holds where each body would come to rest (FAR: placed), its row of `order` the others by that base.
"""

from __future__ import annotations

from isa.timing.compiled import compiled
from npuc.allocation.normal_form import IntArray

FAR = 1 << 62
HEIGHT, MODULUS, RESIDUE = range(3)
"""Columns of `bodies`."""
FIRST, LAST, HIGH = range(3)
"""Columns of `rects`, of which body i owns rect_start[i] to rect_start[i + 1]; sections are counted by clique."""
OTHER, RISE = range(2)
"""Columns of `pairs`: when body i is placed at b, body OTHER rests at b + RISE or higher."""
N_UNTRIED, NEXT, CHOICE, FLOOR, FLOOR_RANK = range(5)
"""Columns of `levels`, one line for each node: children, the next one, the one entered; the body before this node."""
UNSEEN = -1
"""In N_UNTRIED: the node has not been looked at."""
FOUND, EXHAUSTED, STOPPED = range(3)


@compiled
def advance(height: int, n_nodes: int, depth: int, rank: IntArray, bodies: IntArray, rect_start: IntArray,
            rects: IntArray, pair_start: IntArray, pairs: IntArray, levels: IntArray, base: IntArray, order: IntArray,
            untried: IntArray, rest: IntArray, scratch: IntArray) -> tuple[int, int, int]:  # fmt: skip
    """Search on from a node of `depth` for at most n_nodes new nodes: (outcome, depth, nodes left).

    rank [n]: a body's place in the order of preference; rest [n_sections]: units that wait for each section.
    """
    while True:
        if levels[depth, N_UNTRIED] == UNSEEN:
            if depth == len(rank):
                return FOUND, depth, n_nodes
            if n_nodes == 0:
                return STOPPED, depth, 0
            n_nodes -= 1
            levels[depth, NEXT] = levels[depth, N_UNTRIED] = 0
            if _sections_fit(height, depth, bodies, rect_start, rects, levels, base, order, rest, scratch):
                _list_children(depth, rank, bodies, levels, base, order, untried)
        if levels[depth, NEXT] == levels[depth, N_UNTRIED]:
            if depth == 0:
                return EXHAUSTED, depth, n_nodes
            depth -= 1
            _add_rest(levels[depth, CHOICE], 1, rect_start, rects, rest)
            continue
        body = untried[depth, levels[depth, NEXT]]
        levels[depth, NEXT] += 1
        levels[depth, CHOICE] = body
        if _raise_others(height, depth, body, bodies, pair_start, pairs, base):
            _reorder(depth, body, base, order, scratch)
            _add_rest(body, -1, rect_start, rects, rest)
            depth += 1
            levels[depth, N_UNTRIED] = UNSEEN
            levels[depth, FLOOR] = base[depth - 1, body]
            levels[depth, FLOOR_RANK] = rank[body]


@compiled
def _add_rest(body: int, sign: int, rect_start: IntArray, rects: IntArray, rest: IntArray) -> None:
    for rect in range(rect_start[body], rect_start[body + 1]):
        for section in range(rects[rect, FIRST], rects[rect, LAST] + 1):
            rest[section] += sign * rects[rect, HIGH]


@compiled
def _raise_others(height: int, depth: int, body: int, bodies: IntArray, pair_start: IntArray, pairs: IntArray,
                  base: IntArray) -> bool:  # fmt: skip
    """Place the body and lift those above it; False when one of them leaves the height."""
    above = base[depth + 1]
    above[:] = base[depth]
    at = above[body]
    above[body] = FAR
    for pair in range(pair_start[body], pair_start[body + 1]):
        other = pairs[pair, OTHER]
        rests_at = at + pairs[pair, RISE]
        if above[other] < rests_at:
            modulus = bodies[other, MODULUS]
            if modulus > 1:
                rests_at += (bodies[other, RESIDUE] - rests_at) % modulus
            if rests_at + bodies[other, HEIGHT] > height:
                return False
            above[other] = rests_at
    return True


@compiled
def _reorder(depth: int, body: int, base: IntArray, order: IntArray, moved: IntArray) -> None:
    """Merge the bodies that stayed with those that were lifted, sorted by insertion: few or none are out of order.

    Whoever rises past a body that stays came before it, so one pass is enough.
    """
    old, new, before, above = order[depth], order[depth + 1], base[depth], base[depth + 1]
    n_new = n_moved = taken = 0
    for i in range(len(before) - depth):
        other = old[i]
        low = above[other]
        if low == before[other]:
            while taken < n_moved and above[moved[taken]] < low:
                new[n_new] = moved[taken]
                n_new += 1
                taken += 1
            new[n_new] = other
            n_new += 1
        elif other != body:
            k = n_moved
            while k > taken and above[moved[k - 1]] > low:
                moved[k] = moved[k - 1]
                k -= 1
            moved[k] = other
            n_moved += 1
    new[n_new : n_new + n_moved - taken] = moved[taken:n_moved]


@compiled
def _sections_fit(height: int, depth: int, bodies: IntArray, rect_start: IntArray, rects: IntArray, levels: IntArray,
                  base: IntArray, order: IntArray, rest: IntArray, open_from: IntArray) -> bool:  # fmt: skip
    """Section inference: what waits for a section starts no lower than the lowest of it, or the body before.

    The bodies come by ascending base, so each section is looked at once; `open_from` leads past those seen.
    """
    n_open = 0
    for section in range(len(rest)):
        open_from[section] = section
        n_open += rest[section] > 0
    open_from[len(rest)] = len(rest)
    for i in range(base.shape[1] - depth):
        body = order[depth, i]
        low = max(base[depth, body], levels[depth, FLOOR])
        if low + bodies[body, HEIGHT] > height:
            return False
        for rect in range(rect_start[body], rect_start[body + 1]):
            section = _first_open(rects[rect, FIRST], open_from)
            while section <= rects[rect, LAST]:
                if low + rest[section] > height:
                    return False
                open_from[section] = section + 1
                n_open -= 1
                section = _first_open(section + 1, open_from)
        if n_open == 0:
            break
    return True


@compiled
def _first_open(section: int, open_from: IntArray) -> int:
    while open_from[section] != section:
        open_from[section] = open_from[open_from[section]]
        section = open_from[section]
    return section


@compiled
def _list_children(depth: int, rank: IntArray, bodies: IntArray, levels: IntArray, base: IntArray, order: IntArray,
                   untried: IntArray) -> None:  # fmt: skip
    """Who may come next, lowest base first, then by rank.

    Canonical: not below the body before, and on its level only those after it in rank. Dominance: not above the top
    that another body could have, which would then fit underneath.
    """
    floor, floor_rank = levels[depth, FLOOR], levels[depth, FLOOR_RANK]
    children = untried[depth]
    lowest_top = FAR
    n_children = 0
    for i in range(base.shape[1] - depth):
        body = order[depth, i]
        low = base[depth, body]
        if low >= lowest_top:
            break
        lowest_top = min(lowest_top, low + bodies[body, HEIGHT])
        if low > floor or (low == floor and rank[body] > floor_rank):
            k = n_children
            while k > 0 and base[depth, children[k - 1]] == low and rank[children[k - 1]] > rank[body]:
                children[k] = children[k - 1]
                k -= 1
            children[k] = body
            n_children += 1
    levels[depth, N_UNTRIED] = n_children
