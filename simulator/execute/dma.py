"""Copies and fills: bytes, with no meaning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isa.descriptors import Memory
from simulator.execute.binding import Binder, Binding, Step

OFF_CHIP = (Memory.FLASH, Memory.DRAM)
ON_CHIP = (Memory.SRAM,)
WRITABLE = (Memory.SRAM, Memory.DRAM)


def _strides(binding: Binding, side: str) -> tuple[int, int, int, int]:
    d = binding.descriptor
    return d[f"{side}_3"], d[f"{side}_2"], d[f"{side}_1"], 1


def _shape(binding: Binding) -> tuple[int, int, int, int]:
    d = binding.descriptor
    shape = (d["size_3"], d["size_2"], d["size_1"], d["size_0"])
    binding.check_elements(*shape)
    return shape


def _check_memory(binding: Binding, field: str, allowed: tuple[Memory, ...]) -> None:
    number = binding.values[field] >> 30
    if number not in allowed:
        names = ", ".join(memory.name.lower() for memory in allowed)
        raise binding.site.fault(f"{field} {binding.values[field]:#010x} is in memory {number}, allowed: {names}")


def _copy(sources: tuple[Memory, ...], destinations: tuple[Memory, ...], *, is_strided: bool) -> Binder:
    def bind(binding: Binding) -> Step:
        v = binding.values
        _check_memory(binding, "source", sources)
        _check_memory(binding, "destination", destinations)
        shape = _shape(binding) if is_strided else (v["length"],)
        strides = [_strides(binding, side) if is_strided else (1,) for side in ("source", "destination")]
        source, destination = binding.memories.copy_views(binding.site, v["source"], v["destination"], shape, strides)
        return lambda: np.copyto(destination, source)

    return bind


def _fill(binding: Binding) -> Step:
    v = binding.values
    _check_memory(binding, "destination", WRITABLE)
    shape, strides = _shape(binding), _strides(binding, "destination")
    destination = binding.memories.write_view(binding.site, v["destination"], shape, strides)
    return lambda: destination.fill(v["value"])


BINDERS: Mapping[str, Binder] = {
    "dma.load": _copy(OFF_CHIP, ON_CHIP, is_strided=False),
    "dma.load4": _copy(OFF_CHIP, ON_CHIP, is_strided=True),
    "dma.store": _copy(ON_CHIP, WRITABLE, is_strided=False),
    "dma.store4": _copy(ON_CHIP, WRITABLE, is_strided=True),
    "dma.fill": _fill,
}
