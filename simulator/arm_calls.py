"""Calls of the Arm core in the data pass: kernels that the machine's owner brings, on the ranges that a call names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from isa.arm_calls import NO_KERNEL, ArmCall
from isa.descriptors import Memory, split_address
from simulator.errors import SimulatorFault, Site
from simulator.execute import Step
from simulator.memory import Array, Bytes, Memories, Pattern

HINT = "the ranges of a call name every byte that its kernel touches: correct them, or the kernel"


class Kernels(Protocol):
    """What runs kernels: the host, or an image on an emulated core."""

    def run(self, calls: Sequence[tuple[int, int, bytes]], sram: Bytes, flash: Bytes) -> int:
        """Run calls (kernel id, version, parameter record) in order, changing `sram`; the number that succeeded."""


def require_kernels(n_calls: int, kernels: Kernels | None) -> None:
    """SimulatorFault for calls without kernels."""
    if n_calls and kernels is None:
        raise SimulatorFault(
            f"the program has {n_calls} arm calls, and there are no kernels to run them",
            "pass kernels: those of npuc.firmware.host, or an image of them in simulator.arm_kernels",
        )


def touch_ranges(memories: Memories, site: Site, call: ArmCall) -> None:
    """Bind what a call reads, then what it writes: out of range and unwritten bytes are SimulatorFaults."""
    for item in sorted(call.ranges, key=lambda item: item.is_written):
        bind = memories.write_view if item.is_written else memories.read_view
        bind(site, Pattern(item.address, (item.n_bytes,), (1,)))


def bind_call(memories: Memories, site: Site, call: ArmCall, kernels: Kernels | None, *, strict: bool) -> Step | None:
    """The step of a call; None for one that only waits, and where the owner of the memory runs the kernels itself."""
    touch_ranges(memories, site, call)
    if call.kernel == NO_KERNEL or kernels is None:
        return None
    row = [(call.kernel, call.version, call.parameters)]
    sram, flash = memories.arrays[Memory.SRAM], memories.arrays[Memory.FLASH]

    def compute(sram: Bytes) -> None:
        if kernels.run(row, sram, flash) != len(row):
            raise site.fault("the kernel refused its parameters", "compile the program again for these kernels")

    return partial(_watched, site, call, sram, compute) if strict else partial(compute, sram)


def _watched(site: Site, call: ArmCall, sram: Bytes, compute: Callable[[Bytes], None]) -> None:
    """Run a call that changes no bytes but those that it writes, and whose output follows from those that it reads.

    The second of the two holds when the call gives the same where everything that it does not read is something else.
    """
    before, is_written = sram.copy(), _mask(call, len(sram), is_written=True)
    compute(sram)
    strays = np.flatnonzero((sram != before) & ~is_written)
    if len(strays):
        raise site.fault(f"writes byte {int(strays[0]):#x} of sram, which is not among the ranges that it writes", HINT)
    other = np.where(_mask(call, len(sram), is_written=False), before, ~before)
    compute(other)
    different = np.flatnonzero((sram != other) & is_written)
    if len(different):
        raise site.fault(
            f"byte {int(different[0]):#x} of sram, which it writes, follows from bytes that are not among the ranges "
            "that it reads", HINT,
        )  # fmt: skip


def _mask(call: ArmCall, n_bytes: int, *, is_written: bool) -> Array:
    mask = np.zeros(n_bytes, np.bool_)
    for item in call.ranges:
        if item.is_written == is_written:
            first = split_address(item.address)[1]
            mask[first : first + item.n_bytes] = True
    return mask
