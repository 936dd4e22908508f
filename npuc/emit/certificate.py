"""A number of cycles that no schedule of these kernels can beat on a target, and what says so.

docs/schedule.md states the relaxation and proves it; each bound here is a line of that proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isa.instructions import BY_MNEMONIC
from isa.target import Target
from npuc.emit.flash_need import Chosen, FlashNeed, flash_need
from npuc.emit.kernel_need import FLASH, MAC, MIXES, RESOURCES, Floats, Ints, least_cycles
from npuc.emit.reach import Demand, Edge, Hit, before, behind, demands_of, edges_of
from npuc.lower.kernel import Kernel

MOST_CUTS = 64
"""Kernels at which a schedule is cut in two, at most."""

Bound = tuple[float, str]
"""Cycles, and what they are of."""


@dataclass(frozen=True)
class Certificate:
    """`cycles` that every schedule takes at least, because of `resource`."""

    cycles: int
    resource: str


def certify_cycles(kernels: Sequence[Kernel], target: Target, sram_bytes: int) -> Certificate:
    """The bound of a list of kernels, weights not coded yet, within so many bytes of SRAM."""
    cycles, by = max(_Relaxation(kernels, target, sram_bytes).bounds(), key=lambda bound: bound[0])
    return Certificate(int(cycles + 1e-6), by)


@dataclass
class _Relaxation:
    """What remains when all that the proof does not need is free."""

    kernels: Sequence[Kernel]
    target: Target
    sram_bytes: int

    def bounds(self) -> Iterator[Bound]:
        """Every bound of all kernels."""
        yield float(sum(sum(kernel.arm.cycles) for kernel in self.kernels if kernel.arm is not None)), "arm"
        yield self._busy(np.ones(len(self.kernels), bool))
        for cut in self._cuts():
            yield from self._around(cut)

    def _busy(self, chosen: Chosen) -> Bound:
        """Cycles until all of the chosen kernels are done: when the last of them may start that are left at some time,
        and how long those then keep some mixture of resources busy."""
        flash = self._flash_cycles(self._flash.parameters(chosen) + self._flash.stream(chosen))
        kernel_of, least = self._by_release
        is_chosen = chosen[kernel_of]
        if not is_chosen.any():
            return flash, "flash"
        busy = np.cumsum(least[is_chosen], axis=0)
        has_array = busy[:, MAC, None] > 0
        busy = busy + has_array * MIXES[:, MAC] * (self._lead + self.target.costs.block_drain_cycles)
        found = np.vstack([busy + self._release[kernel_of[is_chosen], None], busy[-1] + MIXES[:, FLASH] * flash])
        row, mix = np.unravel_index(int(found.argmax()), found.shape)
        name = self._name(int(mix))
        return float(found[row, mix]), name if row + 2 >= len(found) else f"flash, then {name}"

    def _around(self, cut: int) -> Iterator[Bound]:
        """What is done when kernel `cut` is, and what has yet to follow."""
        until, by = self._busy(self._before[cut])
        hits = behind(self.kernels, self._edges, cut)
        yield until + self._chain(cut, hits), f"{by}, then a chain"
        if not self.target.architecture.has_dram:
            needed = np.zeros(len(self.kernels), bool)
            needed[[i for i, (need, _) in hits.items() if i != cut and self._needs_weights(i, need)]] = True
            left = self._flash.parameters(needed) - self.sram_bytes
            yield until + left / self.target.board.flash_bytes_per_cycle, f"{by}, then flash"

    def _needs_weights(self, i: int, need: Hit) -> bool:
        return self.kernels[i].is_mac and need >= Hit.PIXEL

    def _cuts(self) -> Sequence[int]:
        """Kernels of the NPU, evenly spread where there are many."""
        found = [i for i, kernel in enumerate(self.kernels) if kernel.arm is None]
        return found[:: max(-(-len(found) // MOST_CUTS), 1)]

    def _chain(self, cut: int, hits: Mapping[int, tuple[Hit, Hit]]) -> float:
        """Cycles from the end of kernel `cut` to that of the last kernel that has to wait for others in turn."""
        ends = {cut: 0.0}
        for i, (need, _) in hits.items():
            if i != cut:
                start = max(ends[edge.source] for edge in self._edges[i] if edge.is_all and edge.source in ends)
                ends[i] = start + self._latency(i, need)
        return max(ends.values())

    def _latency(self, i: int, need: Hit) -> float:
        """From the start of what has to wait of kernel i to the retirement of the last of it."""
        board = self.target.board
        if not self.kernels[i].is_mac:
            is_fill = self.kernels[i].mnemonic == "dma.fill"
            return float(self.target.costs.dma_setup_cycles) if is_fill else self._access
        fixed = self._lead + self.target.costs.block_drain_cycles
        if need == Hit.ALL:
            return fixed + float(self._array_cycles[i])
        rate = board.sram_read_bytes_per_cycle + board.flash_bytes_per_cycle + board.dram_bytes_per_cycle
        return fixed + (float(self._flash.weights[i]) / rate if self._needs_weights(i, need) else 0.0)

    def _flash_cycles(self, n_bytes: float) -> float:
        board = self.target.board
        return board.flash_latency_cycles + n_bytes / board.flash_bytes_per_cycle

    @cached_property
    def _access(self) -> float:
        """Cycles to the first data of the nearest memory."""
        board = self.target.board
        return float(min(board.sram_latency_cycles, board.flash_latency_cycles))

    @cached_property
    def _lead(self) -> float:
        """Cycles from the start of an instruction of the array to its first load."""
        return self.target.costs.block_fill_cycles + self._access

    @cached_property
    def _release(self) -> Floats:
        """When each kernel may start first: the stream has brought a desc.load, a descriptor and what the kernel needs
        of others before it, and these have run."""
        board, costs = self.target.board, self.target.costs
        fetch = (BY_MNEMONIC["desc.load"].length_bytes + 8) / board.flash_bytes_per_cycle
        first = 2 * board.flash_latency_cycles + 2 * costs.dispatch_cycles + fetch
        found = np.zeros(len(self.kernels))
        for i, demand in enumerate(self._demands):
            if self.kernels[i].arm is None:
                passed = self._flash.parameters(demand.element) + self._flash.stream(demand.touched)
                found[i] = max(first, self._flash_cycles(passed))
            for edge in self._edges[i]:
                if edge.is_only:
                    found[i] = max(found[i], found[edge.source] + self._latency(edge.source, Hit.ELEMENT))
        return found

    def _name(self, mix: int) -> str:
        port = "sram-port" if self.target.board.sram_shared_port else "sram-read"
        names = [name for name, share in zip(RESOURCES, MIXES[mix], strict=True) if share]
        return "+".join(port if name == "sram-read" else name for name in names)

    @cached_property
    def _least(self) -> tuple[Ints, Floats]:
        return least_cycles(self.kernels, self.target)

    @cached_property
    def _by_release(self) -> tuple[Ints, Floats]:
        """The same, the last released kernels first."""
        kernel_of, least = self._least
        order = np.argsort(-self._release[kernel_of], kind="stable")
        return kernel_of[order], least[order]

    @cached_property
    def _array_cycles(self) -> Floats:
        """Cycles of the array by kernel, none for others."""
        kernel_of, least = self._least
        found: Floats = np.bincount(kernel_of, least[:, MAC], len(self.kernels)).astype(np.float64)
        return found

    @cached_property
    def _flash(self) -> FlashNeed:
        return flash_need(self.kernels, self.target)

    @cached_property
    def _edges(self) -> list[list[Edge]]:
        return edges_of(self.kernels)

    @cached_property
    def _before(self) -> Chosen:
        return before(self._edges)

    @cached_property
    def _demands(self) -> list[Demand]:
        return demands_of(self.kernels, self._edges)
