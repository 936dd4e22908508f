"""The constants of output channels: bias, multiplier and shift, in the records that the layer says."""

from __future__ import annotations

from collections.abc import Callable

from isa.descriptors import Memory, split_address
from isa.scale_record import Scales, record_bytes, unpack
from simulator.errors import Site
from simulator.execute.binding import Binding
from simulator.execute.constants import SHIFTS
from simulator.memory import Array, Pattern
from simulator.operand import Region


def bind_scales(binding: Binding, region: Region) -> Callable[[], Scales]:
    """The scales of the region's channels; those in flash are read once.

    The record of output channel c lies at `scales` + its length x c, whatever region an instruction computes.
    """
    form = binding.descriptor["scale_form"]
    length = record_bytes(form)
    address = binding.descriptor["scales"] + length * region.c
    rows = binding.memories.read_view(binding.site, Pattern(address, (region.channels, length), (length, 1)))
    if split_address(address)[0] is not Memory.FLASH:
        return lambda: _read(binding.site, rows, form)
    constant = _read(binding.site, rows, form)
    return lambda: constant


def _read(site: Site, rows: Array, form: int) -> Scales:
    scales = unpack(rows, form)
    low, high = int(scales.shift.min()), int(scales.shift.max())
    if low < SHIFTS[0] or high > SHIFTS[1]:
        raise site.fault(f"requantization shifts {low} to {high}, allowed: {SHIFTS[0]} to {SHIFTS[1]}")
    return scales
