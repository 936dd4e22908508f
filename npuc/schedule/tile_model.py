"""How finely each layer's weights are cut, so that computing starts while flash still streams.

Kernel i ends no sooner than kernel i-1 plus its own work, and each of its tiles starts no sooner than the tile's
weights have arrived. Cutting finer overlaps more but costs instructions, which come through the same flash. CP-SAT
chooses the number of tiles of every kernel so that the last one ends first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isa.instructions import BY_MNEMONIC
from npuc.lower.kernel import Kernel
from npuc.schedule.tiles import Tiling

WORK_LIMIT = 0.1
"""CP-SAT's deterministic time; a CPU second is about 0.03 of it for these models."""

TILE_STREAM_BYTES = BY_MNEMONIC["mac.conv"].length_bytes + BY_MNEMONIC["dma.load"].length_bytes


def choose_tiles(kernels: Sequence[Kernel], candidates: Sequence[Sequence[Tiling]]) -> list[Tiling]:
    """One tiling for each kernel, in order; nothing is solved when there is nothing to choose."""
    if all(len(found) == 1 for found in candidates):
        return [found[0] for found in candidates]
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    picks = [
        [model.new_bool_var(f"kernel{i}_tiling{j}") for j in range(len(found))] for i, found in enumerate(candidates)
    ]
    _add_recursion(model, kernels, candidates, picks)
    for chosen in picks:
        model.add_hint(chosen[0], 1)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    solver.parameters.max_deterministic_time = WORK_LIMIT
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return [found[0] for found in candidates]
    return [
        found[next(j for j, pick in enumerate(chosen) if solver.value(pick))]
        for found, chosen in zip(candidates, picks, strict=True)
    ]


def _add_recursion(
    model: Any, kernels: Sequence[Kernel], candidates: Sequence[Sequence[Tiling]], picks: Sequence[Sequence[Any]]
) -> None:
    """End times: at 1 byte a cycle of flash the arrival of a byte is its distance in the stream."""
    streamed = sum(kernel.parameters.n_bytes for kernel in kernels)
    horizon = 4 * streamed + sum(
        TILE_STREAM_BYTES * t.n_tiles + t.n_tiles * t.tile_cycles for found in candidates for t in found
    )
    arrival: Any = 0
    before: Any = 0
    for i, (kernel, found, chosen) in enumerate(zip(kernels, candidates, picks, strict=True)):
        model.add_exactly_one(chosen)
        end = model.new_int_var(0, horizon, f"end{i}")
        weights = len(kernel.parameters.weights)
        arrival = arrival + kernel.parameters.head_bytes
        for pick, tiling in zip(chosen, found, strict=True):
            first = weights * min(tiling.channels, kernel.space[3]) // kernel.space[3]
            busy = tiling.n_tiles * tiling.tile_cycles
            model.add(end >= before + busy).only_enforce_if(pick)
            model.add(end >= arrival + first + busy).only_enforce_if(pick)
            model.add(end >= arrival + weights + tiling.tile_cycles).only_enforce_if(pick)
        stream = sum(pick * (TILE_STREAM_BYTES * tiling.n_tiles) for pick, tiling in zip(chosen, found, strict=True))
        arrival = arrival + weights + stream
        before = end
    model.minimize(before)
