"""A convolution whose output is scaled and shifted per channel, with its constants computed in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Rewriter, derived
from npuc.graph.types import Array


def scaled_conv(graph: Rewriter, conv: Node, factor: Array, offset: Array, user: Node, output: str = "") -> Node:
    """The convolution factor * conv + offset (both [cout]), in place of `conv` and of `user`.

    It defines `output`, by default the output of `user`. Constants may be shared, so new ones are made.
    """
    x, weight_name, bias_name = conv.inputs
    output = output or user.outputs[0]
    weight = graph.constants[weight_name].astype(np.float64) * factor.reshape(-1, 1, 1, 1)
    bias = graph.constants[bias_name].astype(np.float64) * factor + offset
    if np.any(factor != 1):
        weight_name = graph.add_constant(weight.astype(np.float32), derived(output, "weight"))
    bias_name = graph.add_constant(bias.astype(np.float32), derived(output, "bias"))
    node = graph.new_node(conv.op, (x, weight_name, bias_name), user, output)
    return replace(node, sources=tuple(dict.fromkeys(conv.sources + user.sources)))
