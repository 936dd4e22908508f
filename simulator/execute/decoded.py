"""Coded weights that were decoded lately."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from isa.weight_codec import decode_weights


class DecodedWeights:
    """Streams decoded lately, found by content: instructions share them, and a run those of the run before."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._found: dict[tuple[bytes, bytes, int], npt.NDArray[np.int8]] = {}

    def take(self, table: bytes, stream: bytes, n_weights: int) -> npt.NDArray[np.int8]:
        """The weights [n_weights] of a stream; IsaError when it is malformed."""
        key = table, stream, n_weights
        weights = self._found.pop(key, None)
        if weights is None:
            weights = decode_weights(table, stream, n_weights)
            self._held_bytes += n_weights + len(stream)
        self._found[key] = weights
        while self._held_bytes > self._limit_bytes:
            oldest = next(iter(self._found))
            del self._found[oldest]
            self._held_bytes -= oldest[2] + len(oldest[1])
        return weights
