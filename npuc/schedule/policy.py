"""Policies: what a schedule may do. "search" is the compiler; the others are what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Freedoms of the search.

    `lookahead`: kernels by which a load may run ahead of its use (None: any). `tile_bytes`: weights of a tile (None:
    chosen by dynamic programming). `buffers`: smallest and largest bytes of a buffer in which neighbouring kernels
    share a load, each pair a candidate; (0, n): none share. `reserves`: shares of the parameters for which stripes
    make room beside the activations, each a candidate. `streams`: whether weights may stay in flash where that pays,
    not only where they find no room, each a candidate, and `port_counts`: whether what loads take of a port that units
    share counts in that, each a candidate. `streams_dense`: the weights of fully-connected layers always
    do. `descriptors_wait`: whether the fetcher leaves the flash to loads that earlier tasks wait for, each a candidate.
    `may_be_crowded`: block shapes that leave a part of the port to loads are candidates, too. `slices`: whether groups
    may run in slices of their channels. `in_ranges`: whether kernels of different units may run beside each other on
    ranges of rows. `has_ladder`: plans for less memory are candidates, too.
    """

    name: str
    lookahead: int | None = None
    tile_bytes: int | None = None
    buffers: tuple[tuple[int, int], ...] = ((0, 4096),)
    reserves: tuple[float, ...] = (0.0,)
    streams: tuple[bool, ...] = (False,)
    port_counts: tuple[bool, ...] = (False,)
    streams_dense: bool = False
    descriptors_wait: tuple[bool, ...] = (False,)
    may_be_crowded: bool = False
    slices: bool = False
    in_ranges: bool = False
    has_ladder: bool = False


SEARCH = Policy(
    "search",
    buffers=((256, 1024), (4096, 4096), (4096, 16384), (4096, 65536), (4096, 262144), (1024, 16384)),
    reserves=(1.0, 0.85, 0.7, 0.5, 0.25, 0.125, 0.0),
    streams=(False, True),
    port_counts=(False, True),
    descriptors_wait=(False, True),
    may_be_crowded=True,
    slices=True,
    in_ranges=True,
    has_ladder=True,
)

POLICIES = {
    policy.name: policy
    for policy in (
        SEARCH,
        Policy("greedy", lookahead=1, tile_bytes=16384, streams_dense=True),
        Policy("layerwise", lookahead=0, tile_bytes=16384),
    )
}
"""greedy, as Arm Vela does: stripes only where memory demands them; parameters of the next layer are loaded during the
present one, those of fully-connected layers are read from flash. layerwise, as DORY does: every layer alone, its
parameters loaded when the layer before it is done. Both double-buffer tiles within a layer."""
