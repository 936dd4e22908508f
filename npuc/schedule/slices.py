"""Groups of kernels that run slice by slice of their channels: convolutions, and what computes channel by channel.

A convolution computes each output channel on its own, from all input channels, so its weights are needed once, however
many slices there are. Behind it, depthwise convolutions, pooling and element-wise kernels need one channel of their
input for one of their output. What flows between the kernels of such a group then lives in a channel window.
"""

from __future__ import annotations

from collections.abc import Sequence

from isa.target import Target
from isa.timing.geometry import WORD_BYTES
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.schedule.tiles import can_tile
from npuc.task.windows import WIDEST, is_channelwise, operands_in, place, window_problem


def slice_sizes(target: Target) -> tuple[int, ...]:
    """Channels of a slice on a machine, largest first: what it computes at once and more, as a window may have.

    A machine whose blocks of channels are one word of memory has no wider ones (docs/rtl.md).
    """
    architecture = target.architecture
    widest = WIDEST if architecture.channel_block > WORD_BYTES else architecture.channel_block
    return tuple(size for size in (64, 32, 16, 8) if architecture.cout_lanes <= size <= widest)


class SliceBook:
    """What can run in slices, each question answered once: a search asks the same ones again and again."""

    def __init__(self, kernels: Sequence[Kernel]) -> None:
        self._kernels = kernels
        shared = {kernel.shares for kernel in kernels if kernel.shares}  # their weights are cut alike in all uses
        self._alone = [_can_slice(kernel) and kernel.owner not in shared for kernel in kernels]
        self._touching: dict[str, list[int]] = {}
        for i, kernel in enumerate(kernels):
            for storage in {kernel.ofm.storage, *kernel.reads} - {PARAMETERS}:
                self._touching.setdefault(storage, []).append(i)
        self._windows: dict[str, bool] = {}
        self._runs: dict[tuple[int, int], bool] = {}

    def can_slice(self, start: int, stop: int) -> bool:
        """Whether kernels [start, stop) can run slice by slice of their channels, which are as many in each."""
        if (start, stop) not in self._runs:
            channels = self._kernels[start].space[3]
            self._runs[start, stop] = (
                all(self._alone[start:stop])
                and all(kernel.space[3] == channels for kernel in self._kernels[start:stop])
                and self._flows(self._kernels[start:stop])
            )
        return self._runs[start, stop]

    def fits_window(self, start: int, stop: int, storage: str) -> bool:
        """Whether a storage lives inside the kernels [start, stop) only, and can be held in a channel window."""
        touching = self._touching.get(storage)
        if not touching or touching[0] < start or touching[-1] >= stop:
            return False
        if storage not in self._windows:
            self._windows[storage] = not window_problem([self._kernels[i] for i in touching], storage)
        return self._windows[storage]

    @staticmethod
    def _flows(members: Sequence[Kernel]) -> bool:
        """Whether a slice of what a member writes is all that the others read of it for the same slice."""
        for storage in {kernel.ofm.storage for kernel in members}:
            operands = [operand for kernel in members for operand in operands_in(kernel, storage)]
            read_whole = any(k.ifm is not None and k.ifm.storage == storage and not is_channelwise(k) for k in members)
            if read_whole or any(place(operand) != place(operands[0]) for operand in operands):
                return False
        return True


def _can_slice(kernel: Kernel) -> bool:
    """Whether the kernel computes one image from its operands alone, and can do so for some of its channels."""
    if kernel.arm is not None or kernel.space[0] > 1:
        return False
    alone = kernel.reads <= {operand.storage for operand in kernel.operands}
    return alone and (is_channelwise(kernel) or can_tile(kernel))
