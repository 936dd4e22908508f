"""Cost of mac.conv and mac.depthwise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from isa.code_table import STATES, TABLE_UNIT_BYTES, code_table_offset
from isa.descriptors import ElementType, Memory
from isa.errors import IsaError
from isa.scale_record import record_bytes
from isa.target import Target
from isa.timing import part_table, parts
from isa.timing.geometry import (
    WORD_BYTES,
    Axis,
    Ints,
    Operand,
    ceil_div,
    run_words,
)
from isa.timing.layer import Layer, first_block, input_spans, layer_of
from isa.timing.pace import TABLE_BYTES, walk_parts
from isa.timing.record import Rows, Traffic, latency_cycles, rate_cycles

TICKS = part_table.TICKS
_WHOLE = 1024
_ACCUMULATOR_BYTES = 4


def mac_work(f: Rows, target: Target) -> dict[str, Ints]:
    """Work columns of a group of MAC instructions; IsaError when blocks do not fit the buffers."""
    layer = layer_of(f)
    _require_fit(f, target)
    of_kind = _block_cycles(f, layer, target)
    walked = walk_parts(f, layer, of_kind, target)
    ofm = f.operand("ofm", "ofm_channels")
    total = _traffic(f, layer, ofm, walked)
    elements = layer.rows.extent * layer.pixels.extent * layer.channels.extent
    return vars(total) | {
        "compute": np.maximum(_all_blocks(of_kind, layer), _decoder_cycles(f, layer, target)),
        "output": rate_cycles(elements, target.costs.output_stage),
        **_first_load(f, layer, walked),
        **_last_amounts(ofm, total, elements, walked, target),
        "pace": walked[:, parts.PACE] // TICKS,
        **_strain(walked, target),
        "lead_cycles": target.costs.block_fill_cycles
        + np.maximum(latency_cycles(layer.ifm.base, target.board), latency_cycles(f("weights"), target.board)),
        "drain_cycles": np.full_like(elements, target.costs.block_drain_cycles),
        "macs": elements * layer.channel_weights,
    }


def _first_load(f: Rows, layer: Layer, walked: Ints) -> dict[str, Ints]:
    """Input of the first chunk, weights of the first part, and the code table."""
    first = Traffic(len(f.index))
    for address, column in ((layer.ifm.base, parts.FIRST_INPUT), (f("weights"), parts.FIRST_WEIGHTS)):
        first.read(address, walked[:, column] // WORD_BYTES, walked[:, column])
    _read_code_table(f, first)
    return {f"first_{name}": getattr(first, name) for name in ("read_words", "flash_bytes", "dram_bytes")}


def _strain(walked: Ints, target: Target) -> dict[str, Ints]:
    """How much of what others take of each stream pace loses: while they take little, what parts which wait for it
    anyway lose; while they take nearly all, what every chunk would lose with half of it if none made up for another."""
    whole = np.maximum(walked[:, parts.PACE], 1)[:, None]
    waits, at_half = (walked[:, first : first + part_table.STREAMS] for first in (parts.WAITS, parts.AT_HALF))
    most = np.maximum(2 * whole * at_half // (whole + at_half), waits)
    result: dict[str, Ints] = {}
    for name, loss in (("strain", waits), ("full_strain", most)):
        flash, read, dram, write = np.minimum(_WHOLE * loss // whole, _WHOLE).T
        if target.board.sram_shared_port:
            read, write = np.minimum(read + write, _WHOLE), np.zeros_like(write)
        columns = {"read": read, "write": write, "flash": flash, "dram": dram}
        result |= {f"{name}_{memory}": column for memory, column in columns.items()}
    return result


def _last_amounts(ofm: Operand, total: Traffic, elements: Ints, walked: Ints, target: Target) -> dict[str, Ints]:
    """What follows the last load: the last part, its output, and output that still waits then."""
    board, memory = target.board, ofm.base >> 30
    sram_rate = board.sram_read_bytes_per_cycle if board.sram_shared_port else board.sram_write_bytes_per_cycle
    rate = np.where(memory == Memory.DRAM, board.dram_bytes_per_cycle, sram_rate)
    waiting = walked[:, parts.LAST_PENDING]
    written = walked[:, parts.LAST_BYTES] + waiting * rate // TICKS
    stage = rate_cycles(walked[:, parts.LAST_VALUES], target.costs.output_stage) + waiting // TICKS
    in_dram = memory == Memory.DRAM
    return {
        "last_compute": ceil_div(walked[:, parts.LAST_COMPUTE], TICKS),
        "last_output": np.minimum(stage, rate_cycles(elements, target.costs.output_stage)),
        "last_write_words": np.where(in_dram, 0, np.minimum(written // WORD_BYTES, total.write_words)),
        "last_dram_bytes": np.where(in_dram, np.minimum(written, total.dram_bytes), 0),
    }


def _block_cycles(f: Rows, layer: Layer, target: Target) -> Ints:
    """Datapath cycles of each kind of block [2, 2, 2, n]: (full, last) on rows, pixels and channels."""
    costs = target.costs
    steps = (
        np.where(layer.is_depthwise, 1, costs.mac_step_pixels_h),
        np.where(layer.is_depthwise, 1, costs.mac_step_pixels_w),
        np.where(layer.is_depthwise, costs.depthwise_channels, costs.mac_step_cout),
    )
    cycles = np.where(
        layer.is_depthwise,
        ceil_div(layer.taps, costs.depthwise_taps),
        costs.mac_step_cycles * _reduction_steps(layer, costs.mac_step_taps),
    )
    cycles = cycles * np.where(f("ifm_type") == ElementType.INT16, 2, 1)
    axes = (layer.rows, layer.pixels, layer.channels)
    h, w, c = (np.stack([ceil_div(a.full, step), ceil_div(a.last, step)]) for a, step in zip(axes, steps, strict=True))
    return np.asarray(h[:, None, None] * w[None, :, None] * c[None, None] * cycles)


def _all_blocks(of_kind: Ints, layer: Layer) -> Ints:
    """Sum over all blocks of an amount of each kind [2, 2, 2, n]."""
    for axis in (layer.rows, layer.pixels, layer.channels):
        of_kind = (axis.count - 1) * of_kind[0] + of_kind[1]
    return of_kind


def _reduction_steps(layer: Layer, step_taps: tuple[tuple[int, int], ...]) -> Ints:
    """Steps that sum all taps and input channels of one output: the least over the array's (lanes, taps) modes."""
    steps = np.full_like(layer.taps, np.iinfo(np.int64).max)
    for lanes, taps in step_taps:
        chunks = ceil_div(layer.k_channels, lanes)
        steps = np.minimum(steps, ceil_div(layer.taps, taps) * chunks)
        if taps == 1:
            packed = layer.kernel_h * ceil_div(layer.kernel_w * layer.k_channels, lanes)
            steps = np.where(layer.k_channels < lanes, np.minimum(steps, packed), steps)
    return steps


def _traffic(f: Rows, layer: Layer, ofm: Operand, walked: Ints) -> Traffic:
    """All reads and writes."""
    total = Traffic(len(f.index))
    for address, column in (
        (layer.ifm.base, parts.INPUT_BYTES), (f("weights"), parts.WEIGHT_LOADS),
        (f.operand("ifm2", "ofm_channels").base, parts.RESIDUAL_BYTES),
    ):  # fmt: skip
        total.read(address, walked[:, column] // WORD_BYTES, walked[:, column])
    record = record_bytes(f("scale_form"))
    scale_bytes = record * layer.channels.extent
    scales = f("scales") + record * layer.channels.first
    total.read(scales, run_words(scales, scale_bytes), scale_bytes)
    table_bytes = TABLE_BYTES * f("use_table")
    total.read(f("table"), run_words(f("table"), table_bytes), table_bytes)
    _read_code_table(f, total)
    total.write(ofm.base, walked[:, parts.OUTPUT_BYTES] // WORD_BYTES)
    return total


def _read_code_table(f: Rows, traffic: Traffic) -> None:
    table = f("scales") + code_table_offset(f("ofm_channels"), f("scale_form"))
    table_bytes = np.where(f("coded_words") > 0, TABLE_UNIT_BYTES * f("code_table"), 0)
    traffic.read(table, run_words(table, table_bytes), table_bytes)


def _decoder_cycles(f: Rows, layer: Layer, target: Target) -> Ints:
    """The decoder fills its table, then decodes the weights of every pass, at one rate; raw weights do not pass it."""
    weights = layer.n_pixel_blocks * layer.channels.extent * layer.channel_weights
    return np.where(f("coded_words") > 0, rate_cycles(STATES + weights, target.costs.decoder_weights), 0)


def block_fits(columns: Mapping[str, Ints], target: Target) -> NDArray[np.bool_]:
    """Whether one half of each buffer holds a block of each MAC instruction [n] of `columns` (see `work_of`).

    Accumulators: pixels x channels of a block, 4 bytes each. Input: the rows x pixels that a block needs, one chunk
    (channel block) of them. Weights: one tap of a chunk for `cout_lanes` output channels; depthwise: all taps.
    """
    return _fits(Rows(columns, np.arange(len(columns["opcode"]))), target)


def _fits(f: Rows, target: Target) -> NDArray[np.bool_]:
    costs, lanes = target.costs, target.architecture.cout_lanes
    layer = layer_of(f)
    values = layer.rows.full * layer.pixels.full * layer.channels.full
    spans = input_spans(f, first_block(layer.rows), first_block(layer.pixels))
    reach_h, reach_w = (np.minimum(span.count * span.length, span.limit) for span in spans)
    inputs = np.minimum(layer.ifm.c0, np.where(layer.is_depthwise, layer.channels.full, layer.k_channels))
    weights = np.minimum(layer.channels.full, lanes) * np.where(layer.is_depthwise, layer.taps, inputs)
    fits: NDArray[np.bool_] = _ACCUMULATOR_BYTES * values <= costs.accumulator_bytes // 2
    fits &= reach_h * reach_w * inputs * layer.ifm.element <= costs.input_buffer_bytes // 2
    fits &= weights <= costs.weight_buffer_bytes // 2
    return fits


def _require_fit(f: Rows, target: Target) -> None:
    bad = np.flatnonzero(~_fits(f, target))
    if len(bad):
        names = ("block_h", "block_w", "block_c", "kernel_h", "kernel_w", "stride_h", "stride_w")
        found = ", ".join(f"{name} {int(f(name)[bad[0]])}" for name in names)
        raise IsaError(
            f"instruction {int(f.index[bad[0]])}: block exceeds half of a buffer of target {target.name} ({found})",
            "make block_h, block_w or block_c smaller",
        )


def least_mac_work(columns: Mapping[str, Ints], target: Target) -> dict[str, Ints]:
    """What each MAC instruction [n] of `columns` asks for at least, without a walk through its parts.

    The datapath, and what passes the port of SRAM and the flash for certain: weights once for each block of pixels, the
    inner of the input once for each block of channels, the output.
    """
    f = Rows(columns, np.arange(len(columns["opcode"])))
    layer, ofm = layer_of(f), f.operand("ofm", "ofm_channels")
    blocks = _all_blocks(_block_cycles(f, layer, target), layer)
    compute = np.maximum(blocks, _decoder_cycles(f, layer, target))
    coded, raw = WORD_BYTES * f("coded_words"), layer.channels.extent * layer.channel_weights
    passes = np.where(layer.is_depthwise, layer.channels.extent, layer.channels.count * layer.k_channels)
    area = _inner(f, layer.rows, "h", "pad_top", "ifm_height") * _inner(f, layer.pixels, "w", "pad_left", "ifm_width")
    outputs = layer.rows.extent * layer.pixels.extent * layer.channels.extent * ofm.element
    traffic = Traffic(len(f.index))
    for address, n_bytes in (
        (f("weights"), layer.n_pixel_blocks * np.where(coded > 0, coded, raw)),
        (layer.ifm.base, area * passes * layer.ifm.element),
    ):
        traffic.read(address, n_bytes // WORD_BYTES, n_bytes)
    traffic.write(ofm.base, outputs // WORD_BYTES)
    return vars(traffic) | {"compute": compute}


def _inner(f: Rows, axis: Axis, name: str, pad: str, limit: str) -> Ints:
    """Input rows or pixels that are read for certain; none where windows leave gaps and the tensor."""
    reach, stride = f(f"kernel_{name}"), f(f"stride_{name}")
    begin = axis.first * stride - f(pad)
    end = begin + (axis.extent - 1) * stride + reach
    is_inside = (begin >= 0) & (end <= f(limit))
    of_windows = np.where(is_inside, axis.extent * reach, 0)
    spanned = np.maximum(np.minimum(end, f(limit)) - np.maximum(begin, 0), 0)
    return np.where(f(f"dilation_{name}") > 1, 0, np.where(stride > reach, of_windows, spanned))
