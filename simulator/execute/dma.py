"""Copies and fills: bytes, with no meaning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simulator.execute.binding import Binder, Binding, Step


def _strides(binding: Binding, side: str) -> tuple[int, int, int, int]:
    d = binding.descriptor
    return d[f"{side}_3"], d[f"{side}_2"], d[f"{side}_1"], 1


def _shape(binding: Binding) -> tuple[int, int, int, int]:
    d = binding.descriptor
    shape = (d["size_3"], d["size_2"], d["size_1"], d["size_0"])
    binding.check_elements(*shape)
    return shape


def _copy(binding: Binding) -> Step:
    v = binding.values
    source, destination = binding.memories.copy_views(
        binding.site, v["source"], v["destination"], (v["length"],), ((1,), (1,))
    )
    return lambda: np.copyto(destination, source)


def _copy_4d(binding: Binding) -> Step:
    v = binding.values
    strides = (_strides(binding, "source"), _strides(binding, "destination"))
    source, destination = binding.memories.copy_views(
        binding.site, v["source"], v["destination"], _shape(binding), strides
    )
    return lambda: np.copyto(destination, source)


def _fill(binding: Binding) -> Step:
    v = binding.values
    shape, strides = _shape(binding), _strides(binding, "destination")
    destination = binding.memories.write_view(binding.site, v["destination"], shape, strides)
    return lambda: destination.fill(v["value"])


BINDERS: Mapping[str, Binder] = {
    "dma.load": _copy,
    "dma.load4": _copy_4d,
    "dma.store": _copy,
    "dma.store4": _copy_4d,
    "dma.fill": _fill,
}
