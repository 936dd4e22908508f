"""Narrow images are read in groups of pixels: the stride along a row becomes channels, and a port word holds more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.graph.graph import Node
from npuc.graph.rewrite import Miss, Rewriter, derived
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window
from npuc.passes.rule import rewrite

WORD_BYTES = 8
"""Of the machine's ports: an access to fewer bytes costs as much."""


@rewrite(QConv)
def fold_stride_into_channels(graph: Rewriter, node: Node) -> list[Node] | Miss:
    """conv(x, w, stride s along a row) = conv(x', w', stride 1), x'[n, g c, h, j] = x[n, c, h, s j + g] and w' alike.

    Pixel by pixel in memory, x' is a view of x. Taps of w' that no tap of w falls on hold the weight zero point.
    """
    op, source = node.op, node.inputs[0]
    if not isinstance(op, QConv) or op.groups != 1 or op.window.dilation[1] != 1:
        return Miss("no dense convolution with neighboring taps")
    n, channels, height, width = graph.type_of(source).shape
    stride = op.window.stride[1]
    if stride < 2 or channels * stride > WORD_BYTES or width % stride:
        return Miss(f"stride {stride} on {width} pixels of {channels} channels, need whole groups of at most a word")
    if graph.producer(source) is None:
        return Miss("its input is an input of the network, stored channel by channel")
    window, shift = folded_window(op.window, width, graph.type_of(node.outputs[0]).shape[3])
    weights = folded_weights(graph.constants[node.inputs[1]], stride, shift, window.kernel[1], op.weight_zero_point)
    pixels = graph.new_node(Transpose((0, 2, 3, 1)), (source,), node)
    groups = graph.new_node(Reshape((n, height, width // stride, stride * channels)), pixels.outputs, node)
    image = graph.new_node(Transpose((0, 3, 1, 2)), groups.outputs, node)
    quant = graph.type_of(source).quant
    for view in (pixels, groups, image):
        graph.values[view.outputs[0]] = replace(graph.type_of(view.outputs[0]), quant=quant)
    name = graph.add_constant(weights, derived(node.inputs[1], "folded"))
    inputs = (*image.outputs, name, *node.inputs[2:])
    return [pixels, groups, image, graph.new_node(replace(op, window=window), inputs, node, node.outputs[0])]


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


def folded_weights(weights: Array, stride: int, shift: int, n_groups: int, zero_point: int) -> Array:
    """[oc,ic,kh,kw] -> [oc, stride ic, kh, groups]: channel g ic + c of group j is tap stride j + g - shift of c."""
    oc, ic, kh, kw = weights.shape
    taps = np.full((oc, ic, kh, n_groups * stride), zero_point, weights.dtype)
    taps[..., shift : shift + kw] = weights
    split = taps.reshape(oc, ic, kh, n_groups, stride)
    return np.ascontiguousarray(split.transpose(0, 4, 1, 2, 3)).reshape(oc, stride * ic, kh, n_groups)
