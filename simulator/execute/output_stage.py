"""The output stage of the MAC array: bias, requantization, clamp, table, residual operand."""

from __future__ import annotations

import numpy as np

from isa import arithmetic
from isa.descriptors import SCALE, Memory, split_address
from simulator.execute.binding import Binding
from simulator.execute.constants import SHIFTS, addition, clamp
from simulator.execute.requantize import Requantization, requantize
from simulator.memory import Array, Pattern
from simulator.operand import Region

SCALE_DTYPE = np.dtype([("bias", "<i4"), ("multiplier", "<i4"), ("shift", "u1"), ("reserved", "u1")])


class OutputStage:
    """Turns the accumulators of one instruction into its output region.

    The scales of output channel c lie at `scales` + 10 c, whatever region an instruction computes.
    """

    def __init__(self, binding: Binding, region: Region) -> None:
        layer = binding.descriptor
        self._site, self._strict = binding.site, binding.strict
        address = layer["scales"] + SCALE.length_bytes * region.c
        self._scales = binding.memories.read_view(
            binding.site, Pattern(address, (region.channels,), (SCALE.length_bytes,), SCALE_DTYPE)
        )
        self._is_constant = split_address(address)[0] is Memory.FLASH
        if self._is_constant:
            self._check_shifts()
        binding.require_8_bit("ofm")
        self.dtype = binding.operand("ofm").dtype
        if layer["use_table"]:
            binding.require_int8("ofm")
        self._table = binding.table() if layer["use_table"] else None
        self._residual, zero_point, bounds = None, binding.operand("ofm").zero_point, clamp(binding)
        if layer["use_residual"]:
            binding.require_8_bit("ifm2")
            zero_point, bounds = layer["mid_zero_point"], clamp(binding, "mid_low", "mid_high")
            self._addition = addition(binding, zero_point)
            self._residual = binding.reads("ifm2", region)
        self._requantization = Requantization(zero_point, *bounds, bool(layer["double_round"]))
        self._output = binding.writes(region)

    @property
    def bias(self) -> Array:
        """[channels]"""
        bias: Array = self._scales["bias"]
        return bias

    @property
    def largest_bias(self) -> int:
        """A bound of the magnitude of every bias."""
        return int(np.abs(self.bias.astype(np.int64)).max()) if self._is_constant else 1 << 31

    def run(self, sums: Array, rows: slice, output: Array) -> None:
        """Write output[rows] from sums [rows, pixels, channels]: int32, or int64 when they may not fit."""
        strip = output[rows]
        accumulators = self._watch(sums) if sums.dtype == np.int64 else sums
        requantize(accumulators, self._scales["multiplier"], self._scales["shift"], self._requantization, strip)
        if self._table is not None:
            strip[...] = arithmetic.lookup(self._table, strip)
        if self._residual is not None:
            strip[...] = arithmetic.residual(strip, self._residual.read()[rows], self._addition)

    def store(self, output: Array) -> None:
        """Write the output region to memory."""
        self._output.write(output)

    def _check_shifts(self) -> None:
        low, high = int(self._scales["shift"].min()), int(self._scales["shift"].max())
        if low < SHIFTS[0] or high > SHIFTS[1]:
            raise self._site.fault(f"requantization shifts {low} to {high}, allowed: {SHIFTS[0]} to {SHIFTS[1]}")

    def _watch(self, sums: Array) -> Array:
        if self._strict and (sums.min() < -(1 << 31) or sums.max() >= 1 << 31):
            worst = int(sums.flat[np.abs(sums).argmax()])
            raise self._site.fault(
                f"accumulator {worst} does not fit in 32 bits", "split the sum or quantize the weights to fewer levels"
            )
        return sums.astype(np.int32)
