"""Cost of mac.conv and mac.depthwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isa.code_table import STATES, TABLE_UNIT_BYTES, code_table_offset
from isa.descriptors import SCALE, ElementType
from isa.errors import IsaError
from isa.target import Target
from isa.timing.geometry import (
    WORD_BYTES,
    Ints,
    Operand,
    ceil_div,
    granule,
    operand_words,
    plain_span,
    run_words,
)
from isa.timing.layer import Layer, first_block, input_spans, layer_of
from isa.timing.pace import Flow, mac_pace
from isa.timing.record import Rows, Traffic, latency_cycles, rate_cycles
from isa.timing.weights import block_words, chunk_words

TABLE_BYTES = 256
_ACCUMULATOR_BYTES = 4


def mac_work(f: Rows, target: Target) -> dict[str, Ints]:
    """Work columns of a group of MAC instructions; IsaError when blocks do not fit the buffers."""
    layer = layer_of(f)
    _require_fit(f, target)
    total, first, flow = _loads(f, layer, target)
    unit = granule(f("ofm_c0"), layer.channels)
    ofm = f.operand("ofm", "ofm_channels")
    regions = [(a.first, a.extent) for a in (layer.rows, layer.pixels, layer.channels)]
    lasts = [(a.last_first, a.last) for a in (layer.rows, layer.pixels, layer.channels)]
    written, last_written = (_region_words(ofm, region, unit) for region in (regions, lasts))
    total.write(ofm.base, written)
    elements, last_elements = (r[0][1] * r[1][1] * r[2][1] for r in (regions, lasts))
    flow = replace(flow, output=(WORD_BYTES * written, ofm.base >> 30))
    of_kind = _block_cycles(f, layer, target)
    compute = _all_blocks(of_kind, layer)
    chunks = layer.chunks(layer.channels.last_first, layer.channels.last)
    output_stage = target.costs.output_stage
    return vars(total) | {
        "compute": np.maximum(compute, _decoder_cycles(f, layer, target)),
        "output": rate_cycles(elements, output_stage),
        "first_read_words": first.read_words,
        "first_flash_bytes": first.flash_bytes,
        "first_dram_bytes": first.dram_bytes,
        "pace": mac_pace(layer, flow, of_kind, target),
        "last_compute": ceil_div(of_kind[-1, -1, -1], chunks),
        "last_output": rate_cycles(last_elements, output_stage),
        "last_write_words": np.where(total.write_words > 0, last_written, 0),
        "lead_cycles": target.costs.block_fill_cycles
        + np.maximum(latency_cycles(layer.ifm.base, target.board), latency_cycles(f("weights"), target.board)),
        "drain_cycles": np.full_like(compute, target.costs.block_drain_cycles),
    }


def _region_words(operand: Operand, region: list[tuple[Ints, Ints]], unit: Ints) -> Ints:
    rows, pixels, (first, channels) = region
    return operand_words(operand, plain_span(*rows), plain_span(*pixels), first, channels, unit)


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


def _loads(f: Rows, layer: Layer, target: Target) -> tuple[Traffic, Traffic, Flow]:
    """All reads, those of the first chunk of the first block, and how they are spread over blocks."""
    total, first = Traffic(len(f.index)), Traffic(len(f.index))
    input_words = _load_input(f, layer, total, first)
    weight_bytes = _load_weights(f, layer, target, total, first)
    scale_bytes = SCALE.length_bytes * layer.channels.extent
    scales = f("scales") + SCALE.length_bytes * layer.channels.first
    total.read(scales, run_words(scales, scale_bytes), scale_bytes)
    table_bytes = TABLE_BYTES * f("use_table")
    total.read(f("table"), run_words(f("table"), table_bytes), table_bytes)
    ifm2 = f.operand("ifm2", "ofm_channels")
    region = [(a.first, a.extent) for a in (layer.rows, layer.pixels, layer.channels)]
    residual = _region_words(ifm2, region, granule(ifm2.c0, layer.channels))
    residual = np.where(f("use_residual") > 0, residual, 0)
    total.read(ifm2.base, residual)
    flow = Flow(
        input=(WORD_BYTES * input_words, layer.ifm.base >> 30),
        weights=(weight_bytes, f("weights") >> 30),
        is_coded=f("coded_words") > 0,
        residual=(WORD_BYTES * residual, ifm2.base >> 30),
        output=(np.zeros_like(residual), np.zeros_like(residual)),
    )
    return total, first, flow


def _load_input(f: Rows, layer: Layer, total: Traffic, first: Traffic) -> Ints:
    """Adds the input; its words in one pass."""
    ifm, channels = layer.ifm, layer.channels
    start = np.where(layer.is_depthwise, channels.first, layer.k)
    extent = np.where(layer.is_depthwise, channels.extent, layer.k_channels)
    unit = np.where(layer.is_depthwise, granule(ifm.c0, channels), ifm.c0)
    passes = np.where(layer.is_depthwise, 1, channels.count)
    words = operand_words(ifm, layer.input_rows, layer.input_pixels, start, extent, unit)
    total.read(ifm.base, passes * words)
    chunk = np.minimum(np.where(layer.is_depthwise, channels.full, extent), ifm.c0 - start % ifm.c0)
    spans = input_spans(f, first_block(layer.rows), first_block(layer.pixels))
    first.read(ifm.base, operand_words(ifm, *spans, start, chunk, unit))
    return words


def _load_weights(f: Rows, layer: Layer, target: Target, total: Traffic, first: Traffic) -> Ints:
    """Adds the weights, which pass once for each block of pixels, and the code table; the bytes of a pass."""
    address, channels = f("weights"), layer.channels
    per_channel = layer.channel_weights
    lanes = target.architecture.cout_lanes
    words = (channels.count - 1) * block_words(address, layer, channels.full, lanes)
    words += block_words(address, layer, channels.last, lanes)
    raw_bytes, coded_bytes = channels.extent * per_channel, WORD_BYTES * f("coded_words")
    is_coded = coded_bytes > 0
    words = np.where(is_coded, run_words(address, coded_bytes), words)
    passes = layer.n_pixel_blocks
    total.read(address, passes * words, passes * np.where(is_coded, coded_bytes, raw_bytes))
    start = np.where(layer.is_depthwise, channels.first, layer.k)
    extent = np.where(layer.is_depthwise, channels.full, layer.k_channels)
    inputs = np.minimum(extent, layer.ifm.c0 - start % layer.ifm.c0)
    outputs = np.where(layer.is_depthwise, 1, np.minimum(channels.full, lanes))
    raw_chunk = layer.taps * inputs * outputs
    chunk = np.where(is_coded, ceil_div(coded_bytes * raw_chunk, raw_bytes), raw_chunk)
    words = np.where(is_coded, run_words(address, chunk), chunk_words(address, layer, outputs, inputs))
    first.read(address, words, chunk)
    table = f("scales") + code_table_offset(f("ofm_channels"))
    table_bytes = np.where(is_coded, TABLE_UNIT_BYTES * f("code_table"), 0)
    for traffic in (total, first):
        traffic.read(table, run_words(table, table_bytes), table_bytes)
    return np.where(is_coded, coded_bytes, raw_bytes)


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
