"""What a network would cost without an NPU: the cycles of each layer's nodes on the Arm core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from npuc.errors import UnsupportedOp

if TYPE_CHECKING:
    from isa.container import Container
    from isa.target import Target
    from npuc.graph.graph import Node


def arm_only_cycles(container: Container, target: Target, layers: Mapping[str, tuple[str, ...]]) -> Mapping[str, int]:
    """Cycles on the NPU's clock by layer; `layers` has the source nodes of each.

    Nodes of the program's reference graph count for the layer of their name, else for the one that stands for the same
    source nodes. Nothing for a program without that graph, or with operators that have no kernel.
    """
    from npuc.arm.cost import arm_cycles
    from npuc.cli.check import reference_graph
    from npuc.firmware.graph_runner import lower_to_kernels

    cycles: Counter[str] = Counter()
    if not container.reference:
        return cycles
    try:
        program = lower_to_kernels(reference_graph(container))
    except UnsupportedOp:
        return cycles
    for node, call in program.calls:
        cycles[_layer_of(node, layers)] += arm_cycles(call, target)
    return cycles


def _layer_of(node: Node, layers: Mapping[str, tuple[str, ...]]) -> str:
    """The layer that computes a node; the node's own name when none says so."""
    if node.name in layers:
        return node.name
    same = (name for name, sources in layers.items() if node.sources and set(node.sources) <= set(sources))
    return next(same, node.name)
