"""The reference of a graph with float32 in it: its float nodes are computed by the C kernels.

Bits of float32 operators are defined by the C text of the kernels, which every build reproduces; numpy's differ in the
last digits, and a number beside a tie would then be another integer. docs/firmware-kernels.md says how close they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from npuc.firmware.graph_runner import Backend, KernelProgram, lower_to_kernels, run_program
from npuc.graph.graph import Graph, Node
from npuc.graph.types import Array, TensorType
from npuc.ops.op import Op


@dataclass(frozen=True)
class ByKernels(Op):
    """An operator whose reference is what kernels compute; `inputs` are the names of the operands that it has."""

    op: Op
    inputs: tuple[str, ...]
    program: KernelProgram
    backend: Backend

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return self.op.infer(*inputs)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        feeds = dict(zip(self.inputs, inputs, strict=True))
        values = run_program(self.program, {name: feeds[name] for name in self.program.graph.inputs}, self.backend)
        return tuple(values[name] for name in self.program.graph.outputs)


def with_float_kernels(graph: Graph, image: Path | None = None) -> Graph:
    """The graph with kernels for its nodes on float32; the same graph when it has none.

    ToolchainError when nothing runs kernels (`call_kernels`), UnsupportedOp for a float operator that has none.
    """
    from npuc.cli.executor import call_kernels

    if not any(touches_floats(graph, node) for node in graph.nodes):
        return graph
    backend = call_kernels(image)
    nodes = (by_kernels(graph, node, backend) if touches_floats(graph, node) else node for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def touches_floats(graph: Graph, node: Node) -> bool:
    """Whether the node reads or writes float32."""
    return any(graph.type_of(name).dtype == "float32" for name in (*node.inputs, *node.outputs) if name)


def by_kernels(graph: Graph, node: Node, backend: Backend) -> Node:
    """The node, computed by kernels."""
    operands = tuple(name for name in node.inputs if name)
    constants = {name: graph.constants[name] for name in operands if name in graph.constants}
    inputs = tuple(dict.fromkeys(name for name in operands if name not in constants))
    values = {name: replace(graph.type_of(name), layout=None) for name in (*operands, *node.outputs)}
    alone = Graph(node.name, (node,), values, constants, inputs, node.outputs)
    return replace(node, op=ByKernels(node.op, operands, lower_to_kernels(alone), backend))
