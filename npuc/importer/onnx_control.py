"""If and Loop whose decisions are constant: the branch taken, or the body repeated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from npuc.ops.onnx_rule import OnnxNode, Refusal
from npuc.ops.structure import Concat, Reshape

MAX_COPIES = 10_000
"""Most nodes that unrolling one Loop may make."""

RunBody = Callable[[onnx.GraphProto, dict[str, str]], list[str]]
"""Import a subgraph whose inputs stand for the given values; returns the values of its outputs."""


def import_if(node: OnnxNode, run_body: RunBody) -> tuple[str, ...]:
    """The branch that a constant condition chooses."""
    condition = node.constant(0, "condition").reshape(-1)
    if condition.size != 1:
        raise Refusal(f"condition has {condition.size} elements, a scalar is needed")
    return tuple(run_body(node.attributes["then_branch" if condition[0] else "else_branch"], {}))


def import_loop(node: OnnxNode, run_body: RunBody) -> tuple[str, ...]:
    """A constant number of trips: the body once for each, then the scan outputs stacked."""
    body: onnx.GraphProto = node.attributes["body"]
    trips = int(node.constant(0, "trip count").reshape(())) if node.has(0) else MAX_COPIES
    going = not node.has(1) or bool(node.constant(1, "condition").reshape(()))
    carried = list(node.inputs[2:])
    if len(body.input) != len(carried) + 2 or len(body.output) < len(carried) + 1:
        raise Refusal(f"{len(carried)} carried values, its body takes {len(body.input) - 2}")
    scans: list[list[str]] = [[] for _ in body.output[1 + len(carried) :]]
    for trip in range(max(trips, 0)):
        if not going:
            break
        if trip * max(1, len(body.node)) > MAX_COPIES:
            raise Refusal(f"unrolls to more than {MAX_COPIES} nodes")
        given = (node.literal(np.array(trip, np.int64)), node.literal(np.array(True)), *carried)
        going_on, *results = run_body(body, {value.name: name for value, name in zip(body.input, given, strict=True)})
        going = decide(node, going_on)
        carried, scanned = results[: len(carried)], results[len(carried) :]
        for column, value in zip(scans, scanned, strict=True):
            column.append(value)
    return (*carried, *(stack(node, column) for column in scans))


def decide(node: OnnxNode, condition: str) -> bool:
    """Whether the loop goes on; the body's condition must be constant."""
    array = node.builder.constant(condition)
    if array is None:
        raise Refusal("the condition depends on the inputs, a constant is needed", "unroll the loop before export")
    return bool(array.reshape(()))


def stack(node: OnnxNode, values: list[str]) -> str:
    """Scan output: values of all trips along a new first axis."""
    if not values:
        raise Refusal("a scan output of no trips is empty")
    rows = [node.emit(Reshape((1, *node.shape_of(value))), value) for value in values]
    return rows[0] if len(rows) == 1 else node.builder.emit(Concat(0), tuple(rows))[0]
