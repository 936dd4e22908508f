"""Stored weights: each kernel's weights coded for the channel ranges that its tasks compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from npuc.lower.kernel import Kernel, WeightPiece
from npuc.lower.weight_code import encode_pieces, raw_pieces

START_CYCLES = 64
"""What a decoder takes to fill its states for an instruction: weights that several kernels use must save a byte of
flash for each of these cycles to be worth it."""

Cuts = tuple[tuple[int, int], ...]
"""Ranges of output channels, in order, that cover all channels once."""


class WeightCoder:
    """Codes the weights of raw kernels; a kernel with the same cuts is coded once."""

    def __init__(self, kernels: Iterable[Kernel]) -> None:
        self._raw = {kernel.node: kernel for kernel in kernels}
        self._uses = Counter(kernel.owner for kernel in self._raw.values())
        self._coded: dict[tuple[str, Cuts], Kernel] = {}

    def whole(self) -> list[Kernel]:
        """All kernels with their weights in one piece."""
        return [self.code(name, ((0, kernel.space[3]),)) for name, kernel in self._raw.items()]

    def code(self, name: str, cuts: Cuts) -> Kernel:
        """A kernel with its weights in one piece for each of `cuts`."""
        kernel = self._raw[name]
        if not kernel.parameters.weights:
            return kernel
        if (name, cuts) not in self._coded:
            self._coded[name, cuts] = _code(kernel, cuts, START_CYCLES * (self._uses[kernel.owner] - 1))
        return self._coded[name, cuts]


def _code(kernel: Kernel, cuts: Sequence[tuple[int, int]], least_saving_bytes: int) -> Kernel:
    raw = kernel.parameters
    per_channel = raw.weight_channel_bytes
    ranges = [(start * per_channel, stop * per_channel) for start, stop in cuts]
    coded = encode_pieces(raw.weights, ranges)
    if len(raw.weights) - coded.n_bytes < least_saving_bytes:
        coded = raw_pieces(raw.weights, ranges)
    pieces, stored = [], bytearray()
    for cut, piece in zip(cuts, coded.pieces, strict=True):
        pieces.append(WeightPiece(*cut, len(stored), len(stored) + len(piece.data), piece.coded_words))
        stored += piece.data + bytes(-len(piece.data) % 8)
    parameters = replace(raw, weights=bytes(stored), code_table=coded.table, pieces=tuple(pieces))
    return replace(kernel, parameters=parameters)
