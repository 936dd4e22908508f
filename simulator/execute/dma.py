"""Copies and fills: bytes, with no meaning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isa.descriptors import Memory
from simulator.execute.binding import Binder, Binding, Step
from simulator.memory import Pattern

OFF_CHIP = (Memory.FLASH, Memory.DRAM)
ON_CHIP = (Memory.SRAM,)
WRITABLE = (Memory.SRAM, Memory.DRAM)


def _pattern(binding: Binding, side: str, *, is_strided: bool) -> Pattern:
    """The bytes at the `source` or `destination`."""
    address, d = binding.values[side], binding.descriptor
    if not is_strided:
        return Pattern(address, (binding.values["length"],), (1,))
    shape = (d["size_3"], d["size_2"], d["size_1"], d["size_0"])
    binding.check_elements(*shape)
    return Pattern(address, shape, (d[f"{side}_3"], d[f"{side}_2"], d[f"{side}_1"], 1))


def _check_memory(binding: Binding, field: str, allowed: tuple[Memory, ...]) -> None:
    number = binding.values[field] >> 30
    if number not in allowed:
        names = ", ".join(memory.name.lower() for memory in allowed)
        raise binding.site.fault(f"{field} {binding.values[field]:#010x} is in memory {number}, allowed: {names}")


def _copy(sources: tuple[Memory, ...], destinations: tuple[Memory, ...], *, is_strided: bool) -> Binder:
    def bind(binding: Binding) -> Step:
        _check_memory(binding, "source", sources)
        _check_memory(binding, "destination", destinations)
        patterns = (_pattern(binding, side, is_strided=is_strided) for side in ("source", "destination"))
        source, destination = binding.memories.copy_views(binding.site, *patterns)
        return lambda: np.copyto(destination, source)

    return bind


def _fill(binding: Binding) -> Step:
    _check_memory(binding, "destination", WRITABLE)
    value = binding.values["value"]
    destination = binding.memories.write_view(binding.site, _pattern(binding, "destination", is_strided=True))
    return lambda: destination.fill(value)


BINDERS: Mapping[str, Binder] = {
    "dma.load": _copy(OFF_CHIP, ON_CHIP, is_strided=False),
    "dma.load4": _copy(OFF_CHIP, ON_CHIP, is_strided=True),
    "dma.store": _copy(ON_CHIP, WRITABLE, is_strided=False),
    "dma.store4": _copy(ON_CHIP, WRITABLE, is_strided=True),
    "dma.fill": _fill,
}
