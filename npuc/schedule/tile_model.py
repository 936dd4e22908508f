"""How finely each layer's weights are cut, so that computing starts while flash still streams.

Kernel i ends no sooner than kernel i-1 plus its own work, and each of its tiles starts no sooner than the tile's
weights have arrived. Cutting finer overlaps more but costs instructions, which come through the same flash; weights
that the array reads in flash save the port of the SRAM (`Tiling.load_cycles`) but cannot come ahead. The state behind
a kernel is when its last byte has arrived and when it ends. Of two states, one that is later in both cannot lead to a
better end: dynamic programming over the others finds the tilings with which the last kernel ends first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isa.instructions import BY_MNEMONIC
from npuc.lower.kernel import Kernel, Parameters
from npuc.schedule.tiles import Tiling

TILE_STREAM_BYTES = BY_MNEMONIC["mac.conv"].length_bytes + BY_MNEMONIC["dma.load"].length_bytes

NOTHING = Parameters()
"""What a kernel loads that has its parameters from another one."""

MOST_STATES = 32
"""States kept behind a kernel, spread evenly over those that could be best."""


@dataclass(frozen=True)
class _State:
    """Cycle at which the flash stream is through with a kernel's bytes, cycle at which the kernel ends."""

    arrived: int
    ended: int
    tiling: Tiling | None = None
    before: _State | None = None


def choose_tiles(
    kernels: Sequence[Kernel], candidates: Sequence[Sequence[Tiling]], flash_bytes_per_cycle: int
) -> list[Tiling]:
    """One tiling for each kernel, in order."""
    states = [_State(0, 0)]
    for kernel, found in zip(kernels, candidates, strict=True):
        states = _fronts([_after(state, kernel, tiling, flash_bytes_per_cycle) for state in states for tiling in found])
    state = min(states, key=lambda state: (state.ended, state.arrived))
    chosen: list[Tiling] = []
    while state.tiling is not None and state.before is not None:
        chosen.append(state.tiling)
        state = state.before
    return chosen[::-1]


def _after(state: _State, kernel: Kernel, tiling: Tiling, rate: int) -> _State:
    busy = tiling.n_tiles * tiling.tile_cycles + tiling.load_cycles
    if tiling.streamed:
        arrived = state.arrived + tiling.flash_bytes // rate
        return _State(arrived, max(state.ended + busy, arrived), tiling, state)
    loaded = NOTHING if kernel.shares else kernel.parameters
    weights, head = len(loaded.weights), state.arrived + loaded.head_bytes // rate
    first = weights * min(tiling.channels, kernel.space[3]) // kernel.space[3] // rate
    ended = max(state.ended + busy, head + first + busy, head + weights // rate + tiling.tile_cycles)
    stream = TILE_STREAM_BYTES if loaded.n_bytes else instruction_bytes(kernel)
    return _State(head + (weights + stream * tiling.n_tiles) // rate, ended, tiling, state)


def instruction_bytes(kernel: Kernel) -> int:
    """Bytes of the stream that one of the kernel's instructions takes."""
    return 0 if kernel.arm is not None else BY_MNEMONIC[kernel.mnemonic].length_bytes


def _fronts(states: list[_State]) -> list[_State]:
    """The states that no other beats in both times."""
    front: list[_State] = []
    for state in sorted(states, key=lambda state: (state.arrived, state.ended)):
        if not front or state.ended < front[-1].ended:
            front.append(state)
    if len(front) <= MOST_STATES:
        return front
    return [front[i * (len(front) - 1) // (MOST_STATES - 1)] for i in range(MOST_STATES)]
