"""A number of cycles that no schedule of these kernels can beat on a target, and the resource that says so.

The relaxation: the kernels, their layouts and the machine stay as they are; everything else is free. Buffers are
unlimited, nothing waits for anything, every operand is read once and whole, all units work at the same time from the
first cycle to the last, and weights are stored at their zero-order entropy. What remains is how long each resource is
busy, and the busiest one bounds every schedule: cutting an instruction into pieces never makes the sum of its datapath
cycles, its elements or its port words smaller, because each is a sum of quotients rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isa.instructions import BY_MNEMONIC, Queue
from isa.target import Target
from isa.timing import work_of
from isa.timing.geometry import WORD_BYTES
from npuc.emit.demand import entropy_bytes
from npuc.lower.kernel import Kernel
from npuc.schedule.blocks import FLASH, work_columns
from npuc.task.task import Compute

_UNLIMITED = 1 << 40


@dataclass(frozen=True)
class Certificate:
    """`cycles` that every schedule takes at least, because `resource` is busy for so long."""

    cycles: int
    resource: str


def certify_cycles(kernels: Sequence[Kernel], target: Target) -> Certificate:
    """The bound of a list of kernels, weights not coded yet."""
    roomy, units = _with_unlimited_buffers(target), {Queue.MAC: "mac", Queue.VEC: "vector"}
    busy = dict.fromkeys((*units.values(), "arm"), 0)
    reads = writes = stored = 0
    for kernel in kernels:
        if kernel.arm is not None:
            busy["arm"] += sum(kernel.arm.cycles)
            continue
        # Parameters in flash: the array may read them there, so that only feature maps need the port.
        work = work_of(work_columns(kernel, list(_whole(kernel)), FLASH), roomy)
        queue, batch = BY_MNEMONIC[kernel.mnemonic].queue, kernel.space[0]
        if queue in units:
            busy[units[queue]] += batch * int(np.maximum(work.compute, work.output).sum())
        reads += batch * int(work.read_words.sum())
        writes += batch * int(work.write_words.sum())
        stored += 0 if kernel.shares else kernel.parameters.head_bytes + _entropy_bytes(kernel)
    busy |= _port_cycles(reads, writes, target)
    busy["flash"] = target.board.flash_latency_cycles + stored // target.board.flash_bytes_per_cycle
    resource = max(busy, key=busy.__getitem__)
    return Certificate(busy[resource], resource)


def _entropy_bytes(kernel: Kernel) -> int:
    return entropy_bytes([np.frombuffer(kernel.parameters.weights, np.int8)])


def _port_cycles(read_words: int, write_words: int, target: Target) -> dict[str, int]:
    board = target.board
    if board.sram_shared_port:
        return {"sram-port": (read_words + write_words) * WORD_BYTES // board.sram_read_bytes_per_cycle}
    return {
        "sram-read": read_words * WORD_BYTES // board.sram_read_bytes_per_cycle,
        "sram-write": write_words * WORD_BYTES // board.sram_write_bytes_per_cycle,
    }


def _with_unlimited_buffers(target: Target) -> Target:
    costs = replace(
        target.costs, accumulator_bytes=_UNLIMITED, input_buffer_bytes=_UNLIMITED, weight_buffer_bytes=_UNLIMITED
    )  # fmt: skip
    return replace(target, costs=costs)


def _whole(kernel: Kernel) -> Iterator[Compute]:
    """The kernel as one instruction for each channel group of one batch entry, in one block."""
    _, height, width, channels = kernel.space
    groups = [(g.start, g.stop, range(g.k, g.k + g.k_channels)) for g in kernel.groups] or [(0, channels, range(1))]
    for start, stop, k in groups:
        block = (height, width, -(-(stop - start) // 8) * 8)
        yield Compute(kernel.node, kernel.mnemonic, 0, range(height), range(width), range(start, stop), k, block)
