"""The constructive packings against the same rules, followed base by base."""

from itertools import groupby

from hypothesis import given, settings

from npuc.allocation import InvalidProblem, Problem
from npuc.allocation.greedy import Placer, body_orders
from npuc.allocation.greedy_kernel import FAR
from npuc.allocation.normal_form import Body, Component, normalize
from tests.allocation.strategies import tied_problems


def _components(problem: Problem) -> tuple[Component, ...]:
    try:
        return normalize(problem).components
    except InvalidProblem:
        return ()


def _clashes(body: Body, base: int, other: Body, other_base: int) -> bool:
    return any(
        a.first <= b.last and b.first <= a.last
        and base + a.low < other_base + b.high and other_base + b.low < base + a.high
        for a in body.rects for b in other.rects
    )  # fmt: skip


def _fixed_first(component: Component, order: list[int]) -> list[int]:
    return sorted(order, key=lambda i: component.bodies[i].fixed is None)


def _in_gaps(component: Component, order: list[int], *, is_tight: bool) -> list[int]:
    bodies, found = component.bodies, dict[int, int]()
    top = sum(body.height + body.modulus for body in bodies) + max(body.fixed or 0 for body in bodies)
    for i in _fixed_first(component, order):
        body = bodies[i]
        free = [not any(_clashes(body, base, bodies[j], at) for j, at in found.items()) for base in range(top)]
        gaps = []
        for is_free, run in groupby(range(top), key=free.__getitem__):
            bases = list(run)
            aligned = [base for base in bases if base % body.modulus == body.residue]
            if is_free and aligned:
                gaps.append((bases[-1] - aligned[0] if bases[-1] + 1 < top else FAR, aligned[0]))
        found[i] = body.fixed if body.fixed is not None else (min(gaps) if is_tight else gaps[0])[1]
    return [found[i] for i in range(len(bodies))]


def _on_skyline(component: Component, order: list[int]) -> list[int]:
    bodies, found = component.bodies, dict[int, int]()
    waiting = _fixed_first(component, order)
    while waiting:
        rests = [
            max([0, *(
                at + b.high - a.low
                for j, at in found.items() for a in bodies[i].rects for b in bodies[j].rects
                if a.first <= b.last and b.first <= a.last
            )])
            for i in waiting
        ]  # fmt: skip
        rests = [rest + (bodies[i].residue - rest) % bodies[i].modulus for i, rest in zip(waiting, rests, strict=True)]
        fixed = bodies[waiting[0]].fixed
        place = rests.index(min(rests)) if fixed is None else 0
        found[waiting.pop(place)] = rests[place] if fixed is None else fixed
    return [found[i] for i in range(len(bodies))]


@settings(max_examples=150)
@given(tied_problems(6))
def test_bodies_go_into_the_first_gap_and_into_the_tightest(problem: Problem) -> None:
    for component in _components(problem):
        for order in body_orders(component):
            for is_tight in (False, True):
                expected = _in_gaps(component, order, is_tight=is_tight)
                assert list(Placer(component).fill_gaps(order, is_tight=is_tight).bases) == expected


@settings(max_examples=100)
@given(tied_problems(6))
def test_the_skyline_is_raised_where_it_is_lowest(problem: Problem) -> None:
    for component in _components(problem):
        for order in body_orders(component):
            assert list(Placer(component).raise_skyline(order).bases) == _on_skyline(component, order)


def _orders(component: Component) -> list[list[int]]:
    """The orders of `body_orders`, from the bodies one by one."""
    bodies = component.bodies
    live = [
        sum(r.high - r.low for body in bodies for r in body.rects if r.first <= clique <= r.last)
        for clique in range(component.n_cliques)
    ]
    total = [max(live[clique] for r in body.rects for clique in range(r.first, r.last + 1)) for body in bodies]
    area = [sum((r.last - r.first + 1) * (r.high - r.low) for r in body.rects) for body in bodies]
    life, first = [body.lifetime for body in bodies], [body.rects[0].first for body in bodies]
    keys = [(-total[i], -life[i], -area[i], first[i], -bodies[i].height) for i in range(len(bodies))]
    picks = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (2,), (3, 1), (4, 1), (1, 2))
    return [sorted(range(len(bodies)), key=lambda i: [keys[i][k] for k in pick]) for pick in picks]


@settings(max_examples=100)
@given(tied_problems(12))
def test_orders_sort_bodies_by_what_they_are_named_for(problem: Problem) -> None:
    for component in _components(problem):
        assert list(body_orders(component)) == _orders(component)
