"""How the parts of MAC instructions follow each other: rows for the walk of `isa.timing.parts`, and what it finds."""

from __future__ import annotations

from typing import cast

import numpy as np

from isa.descriptors import Memory
from isa.scale_record import record_bytes
from isa.target import Target
from isa.timing import part_table, parts
from isa.timing.compiled import IS_COMPILED
from isa.timing.geometry import Axis, Ints, Operand, ceil_div
from isa.timing.layer import Layer
from isa.timing.record import Rows

TABLE_BYTES = 256
_NEVER = 1 << 40


def walk_parts(f: Rows, layer: Layer, compute: Ints, target: Target) -> Ints:
    """What the walk finds of each instruction [n, `parts.RESULT`]; `compute` [2, 2, 2, n]: datapath cycles of a block,
    (full, last) on rows, pixels and channels."""
    rows = np.stack(np.broadcast_arrays(*_columns(f, layer, compute, target)), axis=1).astype(np.int64, order="C")
    size = int(_most_parts(layer, target).max()) * part_table.PART
    result = np.zeros((len(rows), parts.RESULT), np.int64)
    if IS_COMPILED:
        table = np.zeros(size, np.int64)
        for row, found in zip(rows, result, strict=True):
            parts.walk(row, table, part_table.fill(row, table), np.zeros(parts.STATE, np.int64), found)
        return result
    for i, row in enumerate(rows.tolist()):
        # Python's own integers in lists are several times faster than numpy's scalars.
        lists = [row, [0] * size, [0] * parts.STATE, [0] * parts.RESULT]
        line, table, state, found = (cast(Ints, numbers) for numbers in lists)
        parts.walk(line, table, part_table.fill(line, table), state, found)
        result[i] = lists[-1]
    return result


def _columns(f: Rows, layer: Layer, compute: Ints, target: Target) -> list[Ints | int]:
    costs, board, channels = target.costs, target.board, layer.channels
    ofm, ifm2 = f.operand("ofm", "ofm_channels"), f.operand("ifm2", "ofm_channels")
    record = record_bytes(f("scale_form"))
    scales = f("scales") + record * channels.first
    to_sram, from_ofm = ofm.base >> 30 == Memory.SRAM, ofm.base >> 30
    shared = np.where(to_sram & (not board.sram_shared_port), -1, from_ofm)
    write_rate = board.sram_read_bytes_per_cycle if board.sram_shared_port else board.sram_write_bytes_per_cycle
    return [
        *_axis(f, layer.rows, "h", "pad_top", "ifm_height"), *_axis(f, layer.pixels, "w", "pad_left", "ifm_width"),
        channels.first, channels.extent, channels.full, layer.k, layer.k_channels, layer.is_depthwise,
        layer.is_one_chunk, layer.taps, target.architecture.cout_lanes, costs.weight_buffer_bytes // 2,
        f("weights"), f("weights") >> 30, 8 * f("coded_words"), costs.decoder_weights.numerator,
        costs.decoder_weights.denominator, costs.output_stage.numerator, costs.output_stage.denominator,
        scales, scales >> 30, record, TABLE_BYTES * f("use_table"), f("table") >> 30, f("use_residual"), shared,
        _is_even(f, layer, ofm, ifm2),
        *compute.reshape(8, -1),
        board.flash_bytes_per_cycle, board.sram_read_bytes_per_cycle, board.dram_bytes_per_cycle, write_rate,
        *_tensor(layer.ifm, layer.ifm.base >> 30),
        *_tensor(ofm, np.where(to_sram, part_table.WRITE_PORT, from_ofm)),
        *_tensor(ifm2, ifm2.base >> 30),
    ]  # fmt: skip


def _is_even(f: Rows, layer: Layer, ofm: Operand, ifm2: Operand) -> Ints:
    """Whether addresses are the same modulo 8 one block further: bit 0 along a row, bit 1 across rows."""
    pixels, rows = layer.pixels.full, layer.rows.full
    along = pixels * f("stride_w") * (layer.ifm.pixel | layer.ifm.last_pixel)
    across = rows * f("stride_h") * (layer.ifm.row | layer.ifm.last_row)
    for operand in (ofm, ifm2):
        along, across = along | pixels * operand.pixel, across | rows * operand.row
        along, across = along | pixels * operand.last_pixel, across | rows * operand.last_row
    return np.where(along & 7 == 0, 1, 0) + np.where(across & 7 == 0, 2, 0)


def _axis(f: Rows, axis: Axis, name: str, pad: str, limit: str) -> list[Ints]:
    reach = (f(f"kernel_{name}") - 1) * f(f"dilation_{name}") + 1
    return [axis.first, axis.extent, axis.full, f(f"stride_{name}"), reach, f(pad), f(limit)]


def _tensor(operand: Operand, stream: Ints) -> list[Ints]:
    total, c0 = operand.total_channels, operand.c0
    return [
        operand.base, operand.pixel, operand.row, operand.block, operand.last_pixel, operand.last_row,
        operand.element, c0, np.where(total % c0 != 0, total // c0 * c0, _NEVER), stream,
    ]  # fmt: skip


def _most_parts(layer: Layer, target: Target) -> Ints:
    """At least as many as the parts of a block of pixels."""
    lanes, half = target.architecture.cout_lanes, target.costs.weight_buffer_bytes // 2
    depth = np.where(layer.is_depthwise, layer.channels.full, layer.k_channels)
    chunks = ceil_div(depth, layer.ifm.c0) + 1
    groups = np.where(layer.is_depthwise, 1, ceil_div(layer.channels.full, lanes))
    tap_weights = lanes * np.where(layer.is_one_chunk, layer.k_channels, layer.ifm.c0)
    at_once = np.clip(half // tap_weights, 1, layer.taps)
    return np.asarray(layer.channels.count * chunks * groups * ceil_div(layer.taps, at_once))
