"""Convolutions on the MAC array: packed weights, scales, output stage, channel groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isa.arithmetic import requantize
from isa.scale_record import Scales, pack, shortest_form
from isa.target import Target
from npuc.graph.graph import Graph, Node
from npuc.graph.types import Array
from npuc.lower.kernel import ChannelGroup, Kernel, Parameters, lowers
from npuc.lower.operand import image_operand
from npuc.ops.integer.conv import QConv, Residual
from npuc.ops.window import Window

FACTOR_ONE = (1 << 30, 30)
"""Multiplier and shift that change no accumulator, in either rounding."""


def window_fields(window: Window) -> dict[str, int]:
    """Descriptor fields of a window."""
    return {
        "kernel_h": window.kernel[0], "kernel_w": window.kernel[1],
        "stride_h": window.stride[0], "stride_w": window.stride[1],
        "dilation_h": window.dilation[0], "dilation_w": window.dilation[1],
        "pad_top": window.pads[0], "pad_left": window.pads[1],
    }  # fmt: skip


def pack_weights(weights: Array, lanes: int) -> bytes:
    """Order of the manual: [channels / lanes][kh][kw][k_channels][lanes], the last group without padding."""
    starts = range(0, weights.shape[0], lanes)
    parts = [np.ascontiguousarray(weights[i : i + lanes].transpose(2, 3, 1, 0)).tobytes() for i in starts]
    return b"".join(parts)


def pack_scales(op: QConv, weights: Array, bias: Array) -> tuple[int, bytes]:
    """`scale_form` and the records of bias, multiplier and shift, one a channel: the shortest that hold them all.

    A channel whose weights are all zero has its bias as its only accumulator, often a huge one with a tiny factor. It
    is stored as the result, with the factor 1.
    """
    given = Scales(*(np.array(column, np.int64) for column in (bias, op.multipliers, op.shifts)))
    zero_point, clamp = op.output_zero_point, op.clamp
    if op.residual is not None:
        zero_point, clamp = op.residual.mid_zero_point, op.residual.mid_clamp
    result = requantize(*given, zero_point, *clamp, op.double_round) - zero_point
    is_constant = (weights == op.weight_zero_point).all(axis=(1, 2, 3))
    constant = Scales(result, *(np.full_like(result, number) for number in FACTOR_ONE))
    scales = Scales(*(np.where(is_constant, one, own) for one, own in zip(constant, given, strict=True)))
    form = shortest_form(scales)
    return form, pack(scales, form)


def residual_fields(residual: Residual) -> dict[str, int]:
    """Descriptor fields of the addition in the output stage."""
    return {
        "use_residual": 1, "left_shift": residual.left_shift,
        "multiplier_1": residual.accumulator.multiplier, "shift_1": residual.accumulator.shift,
        "multiplier_2": residual.other.multiplier, "shift_2": residual.other.shift,
        "multiplier_out": residual.result.multiplier, "shift_out": residual.result.shift,
        "mid_zero_point": residual.mid_zero_point,
        "mid_low": residual.mid_clamp[0], "mid_high": residual.mid_clamp[1],
    }  # fmt: skip


@lowers(QConv)
def lower_conv(graph: Graph, node: Node, target: Target) -> list[Kernel]:
    """QConv => mac.conv or mac.depthwise, one kernel; groups become channel ranges of it."""
    op = node.op
    if not isinstance(op, QConv):
        raise ValueError("not a convolution")
    weights, bias = graph.constants[node.inputs[1]], graph.constants[node.inputs[2]]
    block, lanes = target.architecture.channel_block, target.architecture.cout_lanes
    scale_form, scales = pack_scales(op, weights, bias)
    fields = {
        **window_fields(op.window),
        "scale_form": scale_form,
        "double_round": int(op.double_round),
        "clamp_low": op.clamp[0],
        "clamp_high": op.clamp[1],
        "weight_zero_point": op.weight_zero_point,
    }
    table = b"" if op.table is None else np.array(op.table, np.int8).tobytes()
    if table:
        fields["use_table"] = 1
    ofm = replace(image_operand(graph.values[node.outputs[0]], block), zero_point=op.output_zero_point)
    other = None
    if op.residual is not None:
        fields |= residual_fields(op.residual)
        other = replace(image_operand(graph.values[node.inputs[3]], block), zero_point=op.residual.other_zero_point)
    packed, groups = _pack_groups(op, weights, lanes)
    channel_bytes = weights.shape[1] * weights.shape[2] * weights.shape[3]
    return [Kernel(
        node.name, "mac.depthwise" if op.is_depthwise else "mac.conv", node.sources, ofm,
        replace(image_operand(graph.values[node.inputs[0]], block), zero_point=op.input_zero_point), other, fields,
        Parameters(scales, table, b"", packed, channel_bytes),
        groups, True, op.window,
    )]  # fmt: skip


def _pack_groups(op: QConv, weights: Array, lanes: int) -> tuple[bytes, tuple[ChannelGroup, ...]]:
    n_channels, k_channels = weights.shape[:2]
    if op.is_depthwise:
        return pack_weights(weights, lanes), (ChannelGroup(0, n_channels, 0, 1),)
    per_group = n_channels // op.groups
    cuts = [range(i * per_group, (i + 1) * per_group) for i in range(op.groups)]
    packed = b"".join(pack_weights(weights[cut.start : cut.stop], lanes) for cut in cuts)
    groups = (ChannelGroup(cut.start, cut.stop, i * k_channels, k_channels) for i, cut in enumerate(cuts))
    return packed, tuple(groups)
