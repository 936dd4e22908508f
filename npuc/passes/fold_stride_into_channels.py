"""Narrow images are read in groups of pixels: the stride along a row becomes channels, and a port word holds more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window
from npuc.passes.rule import rewrite

WORD_BYTES = 8
"""Of the machine's ports: an access to fewer bytes costs as much."""


MOST_CHANNELS = 16
"""Channels of a group that is read block by block: more take the array a second pass over its input lanes."""


@rewrite(QConv)
def fold_stride_into_channels(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """conv(x, w, stride s along a row) = conv(x', w', stride 1): groups of s pixels are channels of x', and w' alike.

    x'[n, g c, h, j] = x[n, c, h, s j + g] is a view of an x stored pixel by pixel; of an input of the network, stored
    channel by channel, x'[n, c s + g, h, j] is one, in blocks of s channels. Taps of w' that no tap of w falls on hold
    the weight zero point.
    """
    op, source = node.op, node.inputs[0]
    if not isinstance(op, QConv) or op.groups != 1 or op.window.dilation[1] != 1:
        return Miss("no dense convolution with neighboring taps")
    n, channels, height, width = graph.type_of(source).shape
    stride, is_planar = op.window.stride[1], graph.producer(source) is None and channels > 1
    most = MOST_CHANNELS if is_planar else WORD_BYTES
    if stride < 2 or stride > WORD_BYTES or channels * stride > most or width % stride:
        found = f"stride {stride} on {width} pixels of {channels} channels"
        return Miss(f"{found}, need whole groups of at most {most} bytes")
    window, shift = folded_window(op.window, width, graph.type_of(node.outputs[0]).shape[3])
    weights = folded_weights(
        graph.constants[node.inputs[1]], stride, shift, window.kernel[1], op.weight_zero_point, is_planar=is_planar
    )
    steps: tuple[Op, ...]
    if is_planar:
        split, order = (n, channels, height, width // stride, stride), (0, 1, 4, 2, 3)
        steps = (Reshape(split), Transpose(order), Reshape((n, channels * stride, height, width // stride)))
    else:
        grouped = Reshape((n, height, width // stride, stride * channels))
        steps = (Transpose((0, 2, 3, 1)), grouped, Transpose((0, 3, 1, 2)))
    views: list[Node] = []
    for step in steps:
        views.append(graph.new_node(step, views[-1].outputs if views else (source,), node))
        name = views[-1].outputs[0]
        graph.values[name] = replace(graph.type_of(name), quant=graph.type_of(source).quant)
    constant = graph.add_constant(weights, derived(node.inputs[1], "folded"))
    inputs = (*views[-1].outputs, constant, *node.inputs[2:])
    return [*views, graph.new_node(replace(op, window=window), inputs, node, node.outputs[0])]


def folded_window(window: Window, width: int, n_outputs: int) -> tuple[Window, int]:
    """The window over groups of as many pixels as the stride, and the tap of its first group that was the first tap."""
    stride, (top, left, bottom, _) = window.stride[1], window.pads
    before = -(-left // stride)
    shift = before * stride - left
    kernel = -(-(shift + window.kernel[1]) // stride)
    after = n_outputs - 1 + kernel - width // stride - before
    return Window(
        (window.kernel[0], kernel), (window.stride[0], 1), (window.dilation[0], 1), (top, before, bottom, after)
    ), shift  # fmt: skip


def folded_weights(
    weights: Array, stride: int, shift: int, n_groups: int, zero_point: int, *, is_planar: bool = False
) -> Array:
    """[oc,ic,kh,kw] -> [oc, stride ic, kh, groups]: channel g ic + c (planar: c stride + g) of group j is tap
    stride j + g - shift of c."""
    oc, ic, kh, kw = weights.shape
    taps = np.full((oc, ic, kh, n_groups * stride), zero_point, weights.dtype)
    taps[..., shift : shift + kw] = weights
    split = taps.reshape(oc, ic, kh, n_groups, stride)
    order = (0, 1, 4, 2, 3) if is_planar else (0, 4, 1, 2, 3)
    return np.ascontiguousarray(split.transpose(order)).reshape(oc, stride * ic, kh, n_groups)
