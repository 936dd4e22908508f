"""Which values must have one scale, and the scale of every stored value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibration import CalibrationError, QuantTable, TensorQuant, quantize_range
from npuc.errors import QuantizationError
from npuc.graph.graph import Graph, Node
from npuc.graph.types import QuantParams
from npuc.ops.integer.softmax import SOFTMAX_QUANT
from npuc.ops.normalize import Softmax
from npuc.ops.structure import Concat, Pad
from npuc.ptq.fusion import keeps_quantization
from npuc.ptq.plan import STAGE, Plan
from npuc.ptq.pointwise import Function, function_of, useful_range


@dataclass(frozen=True)
class Group:
    """Stored values with one scale. `sources` are those whose ranges it covers: the rest only moves their elements.

    `extremes` are constants among the elements, which it covers as well.
    """

    members: tuple[str, ...]
    sources: tuple[str, ...]
    extremes: tuple[float, ...]


def find_groups(plan: Plan) -> tuple[Group, ...]:
    """Join inputs and output of each node that keeps the quantization, transitively."""
    graph = plan.graph
    parents = {name: name for name in plan.roots if name in plan.stored}
    kept = {
        name: step.node
        for name, step in plan.steps.items()
        if name in plan.stored and keeps_quantization(graph, step.node)
    }
    for name, node in kept.items():
        for operand in node.inputs:
            if operand not in graph.constants:
                parents[_find(parents, name)] = _find(parents, operand)
    members: dict[str, list[str]] = {}
    for name in parents:
        members.setdefault(_find(parents, name), []).append(name)
    return tuple(
        Group(
            tuple(names),
            tuple(name for name in names if name not in kept),
            tuple(bound for name in names if name in kept for bound in _constant_extremes(graph, kept[name])),
        )
        for names in members.values()
    )


def _find(parents: dict[str, str], name: str) -> str:
    while parents[name] != name:
        parents[name] = parents[parents[name]]
        name = parents[name]
    return name


def _constant_extremes(graph: Graph, node: Node) -> list[float]:
    """Least and greatest value that a pad or constant operands of a concat add; padding with infinity saturates."""
    if isinstance(node.op, Pad):
        return [node.op.value] if np.isfinite(node.op.value) else []
    if not isinstance(node.op, Concat):
        return []
    arrays = [graph.constants[name] for name in node.inputs if name in graph.constants]
    return [float(bound) for array in arrays if array.size for bound in (array.min(), array.max())]


def values_to_observe(plan: Plan) -> tuple[str, ...]:
    """The values whose ranges calibration must find."""
    return tuple(name for group in find_groups(plan) if not _is_softmax(plan, group) for name in group.sources)


def choose_scales(plan: Plan, table: QuantTable) -> dict[str, QuantParams]:
    """Scale and zero point of every stored value. QuantizationError: the table lacks a value or cannot be used."""
    missing = [name for name in values_to_observe(plan) if name not in table.tensors]
    if missing:
        raise QuantizationError(
            f"the quantization table lacks {len(missing)} tensors: {', '.join(missing[:5])}",
            stage=STAGE,
            hint="calibrate this model again",
        )
    scales: dict[str, QuantParams] = {}
    # Backwards, so that the results of a table are known before the range of its input is narrowed to what matters.
    for group in reversed(find_groups(plan)):
        quant = _scale_of(plan, group, table, scales)
        scales.update(dict.fromkeys(group.members, quant))
    return scales


def _scale_of(plan: Plan, group: Group, table: QuantTable, known: Mapping[str, QuantParams]) -> QuantParams:
    if _is_softmax(plan, group):
        return SOFTMAX_QUANT
    entries = [_int8_entry(table, name) for name in group.sources]
    bounds = [*(entry.lo for entry in entries), *(entry.hi for entry in entries), *group.extremes]
    lo, hi = min(bounds, default=0.0), max(bounds, default=0.0)
    if len(group.members) == 1:
        lo, hi = _narrowed(plan, group.members[0], lo, hi, known)
    if len(entries) == 1 and (lo, hi) == (entries[0].lo, entries[0].hi):
        return QuantParams(entries[0].scale, entries[0].zero_point)
    try:
        entry = quantize_range(lo, hi)
    except CalibrationError as error:
        raise QuantizationError(f"tensor {group.sources[0]}: {error}", stage=STAGE, hint=error.hint) from error
    return QuantParams(entry.scale, entry.zero_point)


def _int8_entry(table: QuantTable, name: str) -> TensorQuant:
    entry = table.tensors[name]
    if entry.dtype != "int8":
        raise QuantizationError(
            f"tensor {name} is {entry.dtype} in the quantization table, only int8 activations are implemented",
            stage=STAGE, hint="set its dtype to int8",
        )  # fmt: skip
    return entry


def _narrowed(plan: Plan, name: str, lo: float, hi: float, known: Mapping[str, QuantParams]) -> tuple[float, float]:
    """The range of a value that only tables read, without the parts in which all of them are constant."""
    dependents = plan.dependents[name]
    if name in plan.direct or not dependents or not all(dependent in known for dependent in dependents):
        return lo, hi
    functions: dict[Function, QuantParams] = {
        function_of(plan.graph, dependent, name): known[dependent] for dependent in dependents
    }
    return useful_range(lo, hi, functions)


def _is_softmax(plan: Plan, group: Group) -> bool:
    """Only softmax results: their scale is that of the operator."""
    nodes = [plan.graph.producers.get(name) for name in group.sources]
    return bool(nodes) and not group.extremes and all(node and isinstance(node.op, Softmax) for node in nodes)
