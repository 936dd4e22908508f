"""Integer weights, biases and requantization factors of a convolution."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from calibration import CalibrationError, symmetric_scales, widen_for_bias
from calibration.affine import WEIGHT_LIMIT
from isa.arithmetic import Rescale, quantize_multiplier
from npuc.errors import QuantizationError
from npuc.graph.types import Array, QuantParams
from npuc.ptq.plan import STAGE
from npuc.ptq.rounding import round_keeping_sums

ACCUMULATOR_LIMIT = 2**31 - 1
OUTLIER_RATIO = 8.0
"""A weight this many times larger than every other of its channel costs the channel three bits."""

MIN_OUTLIER_COUNT = 16
"""With fewer weights in a channel, one that dominates is what the channel does."""

log = logging.getLogger(STAGE)


@dataclass(frozen=True)
class QuantizedWeights:
    """weights int8 [oc, ...], bias int32 [oc], scales [oc] of the weights."""

    weights: Array
    bias: Array
    scales: Array

    def factors(self, input_scale: float, output_scale: float) -> tuple[Rescale, ...]:
        """Requantization factor of each channel: input scale x weight scale / output scale."""
        return tuple(quantize_multiplier(input_scale * scale / output_scale) for scale in self.scales.tolist())


def quantize_weights(weights: Array, bias: Array, x: QuantParams, node: str) -> QuantizedWeights:
    """Symmetric int8 weights per output channel (axis 0), with scales for which no accumulator overflows.

    weights [oc, ...], bias [oc], x the quantization of the input. What had to be changed is logged for the report.
    """
    try:
        scales, notes = widen_for_bias(symmetric_scales(weights, 0), bias, x.scale)
    except CalibrationError as error:
        raise QuantizationError(str(error), node=node, stage=STAGE, hint=error.hint) from error
    for note in (*notes, *_outlier_notes(weights)):
        log.warning("%s: %s", node, note)
    result = _at_scales(weights, bias, x.scale, scales)
    excess = _largest_accumulators(result, x.zero_point) / ACCUMULATOR_LIMIT
    if excess.max() <= 1:
        return result
    wider = np.where(excess > 1, np.float32(1.01) * scales * excess, scales).astype(np.float32)
    log.warning("%s: weight scales enlarged up to %.3g times, or accumulators could overflow", node, excess.max())
    return _at_scales(weights, bias, x.scale, wider)


def _at_scales(weights: Array, bias: Array, input_scale: float, scales: Array) -> QuantizedWeights:
    exact = scales.astype(np.float64)
    columns = exact.reshape(-1, *[1] * (weights.ndim - 1))
    codes = round_keeping_sums(weights.astype(np.float64) / columns, WEIGHT_LIMIT).astype(np.int8)
    biases = np.rint(bias.astype(np.float64) / (input_scale * exact)).astype(np.int32)
    return QuantizedWeights(codes, biases, exact)


def _largest_accumulators(quantized: QuantizedWeights, zero_point: int) -> Array:
    """Bound on |accumulator| of each channel over all int8 inputs [oc]."""
    reach = max(127 - zero_point, zero_point + 128)
    sums = np.abs(quantized.weights.astype(np.int64)).reshape(len(quantized.bias), -1).sum(axis=1)
    return np.asarray(sums * reach + np.abs(quantized.bias.astype(np.int64)), np.float64)


def _outlier_notes(weights: Array) -> list[str]:
    flat = np.abs(weights.reshape(len(weights), -1))
    if flat.shape[1] < MIN_OUTLIER_COUNT:
        return []
    second, first = np.partition(flat, -2, axis=1)[:, -2:].T
    channels = np.flatnonzero(first > OUTLIER_RATIO * second)
    return [
        f"channel {i}: weight magnitude {first[i]:.6g} is an outlier, the next is {second[i]:.6g}; the channel loses "
        "resolution"
        for i in channels.tolist()
        if second[i] > 0
    ]
