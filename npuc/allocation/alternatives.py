"""Different placements of one problem whose peak is the largest sum of live sizes, which proves it minimal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from npuc.allocation.component_search import START_NODES, is_stackable, shaken
from npuc.allocation.greedy import Order, body_orders
from npuc.allocation.normal_form import normalize
from npuc.allocation.packing import Packing, offsets_of
from npuc.allocation.placement import Placement
from npuc.allocation.problem import Problem

if TYPE_CHECKING:
    from npuc.allocation.stack_search import StackSearch


def optimal_placements(problem: Problem, n_searches: int) -> Iterator[Placement]:
    """What short stack searches find at the bound: by each order, then by the orders slightly shaken; each once.

    No more than one for each of `n_searches`. None says nothing about the problem: `allocate` searches for longer.
    Raises InvalidProblem.
    """
    normal = normalize(problem)
    components = normal.components
    if not all(map(is_stackable, components)):
        return
    from npuc.allocation.stack_search import Stacking, StackSearch  # the kernels load when they are needed

    runs = [StackSearch(Stacking(component)) for component in components]
    orders = [list(body_orders(component)) for component in components]
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for trial in range(n_searches):
        packings = list(_stacked(runs, [_order(known, trial) for known in orders], normal.bound))
        bases = tuple(packing.bases for packing in packings)
        if len(packings) == len(components) and bases not in seen:
            seen.add(bases)
            peak_bytes = normal.bound * normal.unit
            offsets = offsets_of(zip(components, packings, strict=True), normal.unit)
            yield Placement(offsets, peak_bytes, peak_bytes)


def _order(known: list[Order], trial: int) -> Order:
    order = known[trial % len(known)]
    return order if trial < len(known) else shaken(order, trial)


def _stacked(runs: list[StackSearch], orders: list[Order], height: int) -> Iterator[Packing]:
    """Packings of the components, as far as all before were found."""
    for run, order in zip(runs, orders, strict=True):
        run.start(height, order)
        packing = run.advance(START_NODES + len(order)).packing
        if packing is None:
            return
        yield packing
