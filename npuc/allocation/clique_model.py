"""Exact search with CP-SAT: does a component fit in a given height?

One NoOverlap for each maximal clique, the height fixed, no objective: the search order does the work. It always sets
down the body that can lie lowest, so presolve and linear relaxations would only cost time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from npuc.allocation.greedy import Order
from npuc.allocation.normal_form import Body, Component
from npuc.allocation.packing import Verdict, packing_of

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


def fit_in_height(component: Component, height: int, order: Order, work_limit: float) -> Verdict:
    """Search for a packing of at most `height` units until CP-SAT's deterministic time reaches `work_limit`."""
    from ortools.sat.python import cp_model

    if height < component.bound:
        return Verdict(None, is_infeasible=True, work=0.0)
    model = cp_model.CpModel()
    steps = [_step(model, body, height) for body in component.bodies]
    bases = [_base(body, step) for body, step in zip(component.bodies, steps, strict=True)]
    _forbid_overlaps(model, component, bases)
    model.add_decision_strategy([steps[i] for i in order], cp_model.CHOOSE_LOWEST_MIN, cp_model.SELECT_MIN_VALUE)
    solver = _solver(work_limit)
    status = solver.solve(model)
    work = solver.response_proto.deterministic_time
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Verdict(packing_of(component, [solver.value(base) for base in bases]), is_infeasible=False, work=work)
    return Verdict(None, is_infeasible=status == cp_model.INFEASIBLE, work=work)


def _step(model: "cp_model.CpModel", body: Body, height: int) -> "cp_model.IntVar":
    """Variable n of base = modulus * n + residue; the component's bound leaves room for at least one value."""
    if body.fixed is not None:
        return model.new_constant((body.fixed - body.residue) // body.modulus)
    return model.new_int_var(0, (height - body.height - body.residue) // body.modulus, "")


def _base(body: Body, step: "cp_model.IntVar") -> "cp_model.LinearExpr":
    return step if (body.modulus, body.residue) == (1, 0) else step * body.modulus + body.residue


def _forbid_overlaps(model: "cp_model.CpModel", component: Component, bases: "Sequence[cp_model.LinearExpr]") -> None:
    cliques: list[list[cp_model.IntervalVar]] = [[] for _ in range(component.n_cliques)]
    for body, base in zip(component.bodies, bases, strict=True):
        for rect in body.rects:
            start = base + rect.low if rect.low else base
            interval = model.new_fixed_size_interval_var(start, rect.high - rect.low, "")
            for clique in cliques[rect.first : rect.last + 1]:
                clique.append(interval)
    for clique in cliques:
        if len(clique) > 1:
            model.add_no_overlap(clique)


def _solver(work_limit: float) -> "cp_model.CpSolver":
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.search_branching = cp_model.FIXED_SEARCH
    parameters.num_workers = 1
    parameters.random_seed = 0
    parameters.linearization_level = 0
    parameters.cp_model_presolve = False
    parameters.max_deterministic_time = work_limit
    return solver
