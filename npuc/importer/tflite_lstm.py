"""Recurrent layers."""

from __future__ import annotations

import math

import numpy as np

from npuc.graph.types import Array
from npuc.importer.tflite_model import TfliteTensor
from npuc.importer.tflite_site import Rule, Site, Unsupported
from npuc.ops.integer.lstm import GATES, QLstm
from npuc.ops.integer.rescale import Rescale, quantize_multiplier

GATE_SCALE = 2.0**-15
"""Scale of sigmoids and of tanh."""

ARGUMENT_SCALE = 2.0**-12
"""Scale of what they are taken of."""

INPUT_WEIGHTS, RECURRENT_WEIGHTS, BIASES = range(1, 5), range(5, 9), range(12, 16)
HIDDEN, CELL = 18, 19
UNUSED = (9, 10, 11, 16, 17, *range(20, 24))
"""Peephole weights, projection and normalization."""


def import_sequence_lstm(site: Site) -> None:
    """One direction, no projection, peepholes or normalization; every call starts as after a reset."""
    _require_plain_lstm(site)
    builder = site.builder
    operands = (
        builder.plain(site.input(0)),
        _stacked(site, INPUT_WEIGHTS, "INT8"),
        _stacked(site, RECURRENT_WEIGHTS, "INT8"),
        _stacked(site, BIASES, "INT32"),
    )
    builder.set_plain(site.output, builder.emit(_lstm(site), operands, site.output.name, site.quant(site.output)))


def _require_plain_lstm(site: Site) -> None:
    if any(site.has(position) for position in UNUSED):
        raise Unsupported("peepholes, projection or layer normalization")
    if site.option("TimeMajor") or site.option("FusedActivationFunction") != 4:
        raise Unsupported("time-major input, or an activation other than TANH")
    if len(site.input(0).shape) != 3 or site.input(CELL).dtype != "INT16":
        raise Unsupported(f"input of rank {len(site.input(0).shape)}, cell state {site.input(CELL).dtype}; "
                          "need rank 3 and INT16")  # fmt: skip


def _lstm(site: Site) -> QLstm:
    x, hidden = site.quant(site.input(0)), site.quant(site.input(HIDDEN))
    (cell_scale,) = site.input(CELL).scales
    power = math.log2(cell_scale)
    if power != round(power) or not -15 <= power <= 0:
        raise Unsupported(f"cell state with scale {cell_scale:g}, need a power of two")
    clip = float(site.option("CellClip"))
    return QLstm(
        x.zero_point,
        hidden.zero_point,
        _gate_rescales(site, x.scale, INPUT_WEIGHTS),
        _gate_rescales(site, hidden.scale, RECURRENT_WEIGHTS),
        quantize_multiplier(GATE_SCALE * cell_scale / cell_scale),
        quantize_multiplier(GATE_SCALE * GATE_SCALE / cell_scale),
        quantize_multiplier(GATE_SCALE * GATE_SCALE / hidden.scale),
        15 + round(power),
        int(min(clip / cell_scale, 32767.0)) if clip > 0 else 0,
    )


def _gate_rescales(site: Site, scale: float, positions: range) -> tuple[Rescale, Rescale, Rescale, Rescale]:
    first, second, third, fourth = (
        quantize_multiplier(scale * _one_scale(site.input(position)) / ARGUMENT_SCALE) for position in positions
    )
    return first, second, third, fourth


def _one_scale(tensor: TfliteTensor) -> float:
    if len(tensor.scales) != 1 or any(tensor.zero_points):
        raise Unsupported(f"{tensor.name} has {len(tensor.scales)} scales or a zero point, need one scale only")
    return tensor.scales[0]


def _stacked(site: Site, positions: range, dtype: str) -> str:
    """Constants of the four gates one behind the other."""
    parts: list[Array] = []
    for position in positions:
        if site.input(position).dtype != dtype:
            raise Unsupported(f"{site.input(position).name} is {site.input(position).dtype}, need {dtype}")
        parts.append(site.constant(position, "weights"))
    if len({part.shape for part in parts}) != 1 or len(parts) != GATES:
        raise ValueError(f"constants of the gates have shapes {[part.shape for part in parts]}")
    return site.builder.constant(f"{site.input(positions[0]).name}:gates", np.concatenate(parts))


RULES: dict[str, Rule] = {"UNIDIRECTIONAL_SEQUENCE_LSTM": import_sequence_lstm}
