"""Zero-order entropy: what the stored weights of a network are measured against."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from npuc.graph.types import Array


def entropy_bytes(arrays: Iterable[Array]) -> int:
    """Zero-order entropy of the arrays' bytes, each coded with its own frequencies."""
    bits = 0.0
    for array in arrays:
        counts = np.unique(array, return_counts=True)[1]
        bits -= float((counts * np.log2(counts / array.size)).sum())
    return round(bits / 8)
