"""A streaming histogram of float32 values with one relative resolution at every magnitude.

A bin is what is left of a float32 when its 14 low mantissa bits are dropped: sign, exponent and 9 bits of mantissa.
Bins are thus 1/512 of an octave wide wherever the data lie, an outlier never coarsens what was counted before it, and
the result does not depend on the order of the data. Memory is 24 bytes for each occupied bin, of which there are at
most 2**18.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

DROPPED_BITS = 14
CHUNK_VALUES = 1 << 20
ZERO_KEY = 0
"""The bin of zero; it also takes magnitudes below 2**-135, which no scale resolves."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def _no_ints() -> Ints:
    return np.zeros(0, np.int64)


def _no_floats() -> Floats:
    return np.zeros(0, np.float64)


@dataclass
class Histogram:
    """Occupied bins in ascending order of value.

    keys, counts [bins]: int64; a key is ordered as the values of its bin are. sums [bins]: float64 sums of the
    values, exact up to 2**29 values a bin because they share an exponent. `minimum` and `maximum` are exact.
    """

    keys: Ints = field(default_factory=_no_ints)
    counts: Ints = field(default_factory=_no_ints)
    sums: Floats = field(default_factory=_no_floats)
    minimum: float = np.inf
    maximum: float = -np.inf

    @property
    def n_values(self) -> int:
        """Number of values counted."""
        return int(self.counts.sum())

    @property
    def means(self) -> Floats:
        """Mean value of each bin [bins]; exact when a bin holds one distinct value."""
        return self.sums / self.counts

    def add(self, values: NDArray[Any]) -> None:
        """Count finite values of any shape, as float32."""
        for chunk in _chunks(values):
            self.minimum = min(self.minimum, float(chunk.min()))
            self.maximum = max(self.maximum, float(chunk.max()))
            self._merge(*_count(chunk))

    def edges(self) -> tuple[Floats, Floats]:
        """Lowest and highest value that each bin can hold [bins], within the exact minimum and maximum."""
        magnitude = _magnitude_key(self.keys)
        inner, outer = _float_of(magnitude), _float_of(magnitude + 1)
        is_negative = self.keys < 0
        lower = np.where(is_negative, -outer, inner)
        upper = np.where(is_negative, -inner, outer)
        return np.clip(lower, self.minimum, self.maximum), np.clip(upper, self.minimum, self.maximum)

    def select(self, kept: NDArray[np.bool_]) -> "Histogram":
        """The histogram of the bins where `kept` [bins] holds; its minimum and maximum are those bins' edges."""
        lower, upper = self.edges()
        return Histogram(
            self.keys[kept], self.counts[kept], self.sums[kept], float(lower[kept].min()), float(upper[kept].max())
        )

    def _merge(self, keys: Ints, counts: Ints, sums: Floats) -> None:
        # Two ascending runs, which a stable sort only has to merge.
        both = np.concatenate([self.keys, keys])
        order = np.argsort(both, kind="stable")
        ascending = both[order]
        starts = np.flatnonzero(np.diff(ascending, prepend=ascending[0] - 1))
        self.keys = ascending[starts]
        self.counts = np.add.reduceat(np.concatenate([self.counts, counts])[order], starts)
        self.sums = np.add.reduceat(np.concatenate([self.sums, sums])[order], starts)


def _chunks(values: NDArray[Any]) -> Iterator[NDArray[np.float32]]:
    flat = np.asarray(values).reshape(-1)
    for start in range(0, flat.size, CHUNK_VALUES):
        # Adding zero turns -0.0, whose sign bit would make it a negative bin, into 0.0.
        yield flat[start : start + CHUNK_VALUES].astype(np.float32) + np.float32(0)


def _count(values: NDArray[np.float32]) -> tuple[Ints, Ints, Floats]:
    bits = values.view(np.int32).astype(np.int64)
    magnitude = (bits & 0x7FFFFFFF) >> DROPPED_BITS
    keys = np.where(bits < 0, ~magnitude, magnitude)
    first = int(keys.min())
    counts = np.bincount(keys - first)
    sums = np.bincount(keys - first, weights=values).astype(np.float64)
    occupied = np.flatnonzero(counts)
    return (occupied + first).astype(np.int64), counts[occupied].astype(np.int64), sums[occupied]


def _magnitude_key(keys: Ints) -> Ints:
    return np.where(keys < 0, ~keys, keys)


def _float_of(magnitude_keys: Ints) -> Floats:
    return (magnitude_keys << DROPPED_BITS).astype(np.int32).view(np.float32).astype(np.float64)
