"""What a network asks of any machine, however it is compiled: multiplies and weights, and what they bound."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from isa.target import Target
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv


@dataclass(frozen=True)
class Demand:
    """Multiply-accumulates, bytes of the raw weights, and the bound of `profile` and `compile`:
    max(MACs / peak MACs, entropy of the weights / flash rate)."""

    macs: int
    weights_bytes: int
    bound_cycles: int


def demand_of(network: Graph, target: Target) -> Demand:
    """Of an integer graph before the passes that shape it for the machine."""
    weights = weights_of(network)
    macs = sum(_macs(network, node.inputs[1], node.outputs[0]) for node in network.nodes if isinstance(node.op, QConv))
    stream = -(-entropy_bytes(weights) // target.board.flash_bytes_per_cycle)
    bound = max(-(-macs // peak_macs(target)), stream)
    return Demand(macs, sum(array.size for array in weights), bound)


def _macs(network: Graph, weights: str, output: str) -> int:
    """Every output element sums one multiply for each weight of its channel."""
    return math.prod(network.values[output].shape) * math.prod(network.values[weights].shape[1:])


def weights_of(graph: Graph) -> list[Array]:
    """Weight tensors of the convolutions, each constant once."""
    names = dict.fromkeys(node.inputs[1] for node in graph.nodes if isinstance(node.op, QConv))
    return [graph.constants[name] for name in names]


def peak_macs(target: Target) -> int:
    """Multiply-accumulates of the array in one cycle."""
    costs = target.costs
    lanes = max(channels * taps for channels, taps in costs.mac_step_taps)
    pixels = costs.mac_step_pixels_h * costs.mac_step_pixels_w
    return lanes * costs.mac_step_cout * pixels // costs.mac_step_cycles


def entropy_bytes(arrays: Iterable[Array]) -> int:
    """Zero-order entropy of the arrays' bytes, each coded with its own frequencies."""
    bits = 0.0
    for array in arrays:
        counts = np.unique(array, return_counts=True)[1]
        bits -= float((counts * np.log2(counts / array.size)).sum())
    return round(bits / 8)
