"""Policies: what a schedule may do. "search" is the compiler; the others are what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Freedoms of the search.

    `lookahead`: kernels by which a load may run ahead of its use (None: any). `tile_bytes`: weights of a tile (None:
    chosen by CP-SAT). `shared_buffers`: parameters of neighbouring kernels may share a load. `reserves`: shares of the
    parameters for which stripes make room beside the activations, each a candidate.
    """

    name: str
    lookahead: int | None = None
    tile_bytes: int | None = None
    shared_buffers: bool = True
    reserves: tuple[float, ...] = (1.0, 0.85, 0.7, 0.5, 0.25, 0.125, 0.0)


SEARCH = Policy("search")

POLICIES = {
    policy.name: policy
    for policy in (
        SEARCH,
        Policy("greedy", lookahead=1, tile_bytes=16384, shared_buffers=False, reserves=(0.0,)),
        Policy("layerwise", lookahead=0, tile_bytes=16384, shared_buffers=False, reserves=(0.0,)),
    )
}
"""greedy: stripes only where memory demands them, parameters of the next layer loaded during the present one.
layerwise: every layer alone, its parameters loaded when it starts. Both double-buffer tiles within a layer."""
