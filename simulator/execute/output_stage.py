"""The output stage of the MAC array: requantization, clamp, table, residual operand."""

from __future__ import annotations

import numpy as np

from isa import arithmetic
from isa.scale_record import Scales
from simulator.execute.binding import Binding
from simulator.execute.constants import addition, clamp
from simulator.execute.requantize import Requantization, requantize
from simulator.memory import Array
from simulator.operand import Region


class OutputStage:
    """Turns the accumulators of one instruction into its output region; binders make it after all other reads."""

    def __init__(self, binding: Binding, region: Region) -> None:
        layer = binding.descriptor
        self._site, self._strict = binding.site, binding.strict
        binding.require_integers("ofm")
        self.dtype = binding.operand("ofm").dtype
        if layer["use_table"]:
            binding.require_int8("ofm")
        self._table = binding.table() if layer["use_table"] else None
        self._residual, zero_point, bounds = None, binding.operand("ofm").zero_point, clamp(binding)
        if layer["use_residual"]:
            binding.require_integers("ifm2")
            zero_point, bounds = layer["mid_zero_point"], clamp(binding, "mid_low", "mid_high")
            self._addition = addition(binding, zero_point)
            self._residual = binding.reads("ifm2", region)
        self._requantization = Requantization(zero_point, *bounds, bool(layer["double_round"]))
        self._output = binding.writes(region)

    def run(self, sums: Array, scales: Scales, rows: slice, output: Array) -> None:
        """Write output[rows] from sums [rows, pixels, channels]: int32, or int64 when they may not fit."""
        strip = output[rows]
        accumulators = self._watch(sums) if sums.dtype == np.int64 else sums
        requantize(accumulators, scales.multiplier, scales.shift, self._requantization, strip)
        if self._table is not None:
            strip[...] = arithmetic.lookup(self._table, strip)
        if self._residual is not None:
            strip[...] = arithmetic.residual(strip, self._residual.read()[rows], self._addition)

    def store(self, output: Array) -> None:
        """Write the output region to memory."""
        self._output.write(output)

    def _watch(self, sums: Array) -> Array:
        if self._strict and (sums.min() < -(1 << 31) or sums.max() >= 1 << 31):
            worst = int(sums.flat[np.abs(sums).argmax()])
            raise self._site.fault(
                f"accumulator {worst} does not fit in 32 bits", "split the sum or quantize the weights to fewer levels"
            )
        return sums.astype(np.int32)
