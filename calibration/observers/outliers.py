"""Isolated outliers: what they are, and the histogram without them."""

import numpy as np
from numpy.typing import NDArray

from calibration.histogram import Histogram

TYPICAL_FRACTION = 0.999
OUTLIER_RATIO = 50.0


def typical_magnitude(histogram: Histogram) -> float:
    """The 99.9 percentile of |x|, of rank floor(0.999 (n - 1)), so that one outlier among few values stays above it."""
    magnitudes, order = _sorted_magnitudes(histogram)
    return float(magnitudes[_typical_bin(histogram, order)])


def without_outliers(histogram: Histogram) -> Histogram:
    """The histogram up to the first gap of more than a factor 50 between magnitudes above the 99.9 percentile.

    A gap is asked for, not only a large value: the scores of a detector are small but for a few in ten thousand, and
    those few matter. A squared-error search alone would keep a single 1e4 among thousands of values of size 1.
    """
    magnitudes, order = _sorted_magnitudes(histogram)
    start = _typical_bin(histogram, order)
    below, above = magnitudes[start:-1], magnitudes[start + 1 :]
    gaps = np.flatnonzero((below > 0) & (above > OUTLIER_RATIO * below))
    if gaps.size == 0:
        return histogram
    kept = np.zeros(order.size, np.bool_)
    kept[order[: start + int(gaps[0]) + 1]] = True
    return histogram.select(kept)


def _sorted_magnitudes(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    magnitudes = np.abs(histogram.means)
    order = np.argsort(magnitudes, kind="stable")
    return magnitudes[order], order


def _typical_bin(histogram: Histogram, order: NDArray[np.int64]) -> int:
    rank = int(TYPICAL_FRACTION * (histogram.n_values - 1))
    return int(np.searchsorted(np.cumsum(histogram.counts[order]), rank, side="right"))
