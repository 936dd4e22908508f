"""Functions of one value, element by element: what a 256-entry table can hold.

An operator is pointwise when each element of its result depends on one element of one value only: a unary function,
arithmetic with scalar constants, and any expression of these over the same value, such as x * sigmoid(x).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from isa import arithmetic
from npuc.graph.graph import Graph, Node
from npuc.graph.types import Array, QuantParams
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.op import Op
from npuc.ops.unary import Unary

POINTWISE: tuple[type[Op], ...] = (Unary, Relu, Clip, Add, Sub, Mul, Div)
CODES: Array = np.arange(-128, 128)

N_PROBES = 4096
"""Points at which a function is looked at to see where it is constant: 16 for each step of int8."""

Function = Callable[[Array], Array]


def pointwise_root(graph: Graph, node: Node, roots: Mapping[str, str]) -> str | None:
    """The one value that `node` is a pointwise function of, given those of earlier values; None if there is none."""
    if not isinstance(node.op, POINTWISE):
        return None
    names = {roots[name] for name in node.inputs if name not in graph.constants}
    scalars = all(graph.values[name].n_elements == 1 for name in node.inputs if name in graph.constants)
    root = next(iter(names), "")
    if len(names) != 1 or not scalars or graph.values[root].shape != graph.values[node.outputs[0]].shape:
        return None
    return root


def function_of(graph: Graph, value: str, root: str) -> Function:
    """`value` as a function of `root`, evaluated operator by operator in float32 on an array [n]."""
    nodes = expression(graph, value, root)
    operands = {name for node in nodes for name in node.inputs if name in graph.constants}
    scalars = {name: graph.constants[name].reshape(()) for name in operands}

    def evaluate(x: Array) -> Array:
        known: dict[str, Array] = {**scalars, root: x}
        with np.errstate(all="ignore"):
            for node in nodes:
                (known[node.outputs[0]],) = node.op.reference(*(known[name] for name in node.inputs))
        return np.asarray(known[value], np.float32)

    return evaluate


def expression(graph: Graph, value: str, root: str) -> list[Node]:
    """Nodes between `root` and `value`, in topological order."""
    found: dict[str, Node] = {}
    waiting = [value]
    while waiting:
        name = waiting.pop()
        if name != root and name not in graph.constants and name not in found:
            found[name] = graph.producers[name]
            waiting += found[name].inputs
    return [node for node in graph.nodes if node.outputs[0] in found] if len(found) > 1 else list(found.values())


def tabulate(function: Function, source: QuantParams, target: QuantParams) -> tuple[int, ...]:
    """The int8 function from `source` to `target`: dequantize, apply in float32, quantize half to even.

    Where the function is undefined (NaN) the table has the code of zero: no real input leads there.
    """
    x = arithmetic.dequantize(CODES, source.scale, source.zero_point)
    return tuple(int(code) for code in encode(function(x), target))


def encode(values: Array, quant: QuantParams) -> Array:
    """int8 codes of float values, half to even; NaN as zero."""
    finite = np.nan_to_num(np.asarray(values, np.float32), nan=0.0, posinf=np.inf, neginf=-np.inf)
    return arithmetic.quantize(finite, quant.scale, quant.zero_point, np.int8, half_even=True)


def useful_range(lo: float, hi: float, functions: Mapping[Function, QuantParams]) -> tuple[float, float]:
    """The part of [lo, hi] outside of which none of the functions changes once quantized: where to spend int8's levels.

    At least one probe on either side of the changes is kept, so saturated inputs still read as saturated.
    """
    x = np.linspace(lo, hi, N_PROBES, dtype=np.float32)
    changes = np.zeros(N_PROBES - 1, np.bool_)
    for function, quant in functions.items():
        changes |= np.diff(encode(function(x), quant)) != 0
    where = np.flatnonzero(changes)
    if where.size == 0:
        return lo, hi
    return float(x[where[0]]), float(x[where[-1] + 1])
