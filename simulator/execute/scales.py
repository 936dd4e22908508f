"""The constants of output channels: bias, multiplier and shift, 10 bytes a channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isa.descriptors import SCALE, Memory, split_address
from simulator.errors import Site
from simulator.execute.binding import Binding
from simulator.execute.constants import SHIFTS
from simulator.memory import Array, Pattern
from simulator.operand import Region

Column = npt.NDArray[np.int64]

_DTYPE = np.dtype([("bias", "<i4"), ("multiplier", "<i4"), ("shift", "u1"), ("reserved", "u1")])


class Scales(NamedTuple):
    """Columns [channels]."""

    bias: Column
    multiplier: Column
    shift: Column


def bind_scales(binding: Binding, region: Region) -> Callable[[], Scales]:
    """The scales of the region's channels; those in flash are read once.

    The scales of output channel c lie at `scales` + 10 c, whatever region an instruction computes.
    """
    address = binding.descriptor["scales"] + SCALE.length_bytes * region.c
    pattern = Pattern(address, (region.channels,), (SCALE.length_bytes,), _DTYPE)
    rows = binding.memories.read_view(binding.site, pattern)
    if split_address(address)[0] is not Memory.FLASH:
        return lambda: _read(binding.site, rows)
    constant = _read(binding.site, rows)
    return lambda: constant


def _read(site: Site, rows: Array) -> Scales:
    scales = Scales(*(rows[name].astype(np.int64) for name in Scales._fields))
    low, high = int(scales.shift.min()), int(scales.shift.max())
    if low < SHIFTS[0] or high > SHIFTS[1]:
        raise site.fault(f"requantization shifts {low} to {high}, allowed: {SHIFTS[0]} to {SHIFTS[1]}")
    return scales
