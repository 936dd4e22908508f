"""Entropy: the range whose int8 distribution diverges least from the observed one.

The method is the Kullback-Leibler threshold search of Migacz, "8-bit Inference with TensorRT" (GTC 2017), on signed
values: the threshold cuts both sides, and 256 levels cover what is left of the range.
"""

import numpy as np
from numpy.typing import NDArray

from calibration.histogram import ZERO_KEY, Histogram
from calibration.observers.outliers import without_outliers
from calibration.ranges import Range, clip_range, first_least

N_LEVELS = 256
N_BINS = 2048
BIN_STEP = 16
MISSING_PROBABILITY = 1e-9

Floats = NDArray[np.float64]


def entropy_range(histogram: Histogram) -> Range:
    """The range [max(min, -t), min(max, t)] with the least KL divergence; equal divergences go to the widest.

    t runs in steps of 1/128 from the largest magnitude down to 1/8 of it.
    """
    histogram = without_outliers(histogram)
    bounds = (histogram.minimum, histogram.maximum)
    limit = max(abs(bounds[0]), abs(bounds[1]))
    # Zero is exact for every scale and often half of a tensor: counting it would only pull the threshold down.
    is_nonzero = histogram.keys != ZERO_KEY
    if not is_nonzero.any():
        return bounds
    counts = uniform_counts(histogram.select(is_nonzero), limit)
    thresholds = range(N_BINS, N_LEVELS - 1, -BIN_STEP)
    best = first_least([clipping_divergence(*_window(counts, threshold)) for threshold in thresholds])
    return clip_range(bounds, limit * thresholds[best] / N_BINS)


def uniform_counts(histogram: Histogram, limit: float) -> Floats:
    """Counts in 2 * N_BINS equal bins over [-limit, limit]; the values of a bin are taken as spread evenly over it."""
    lower, upper = histogram.edges()
    reached = np.cumsum(histogram.counts)
    positions = np.stack([lower, upper], axis=1).reshape(-1)
    cumulative = np.stack([reached - histogram.counts, reached], axis=1).reshape(-1)
    grid = np.linspace(-limit, limit, 2 * N_BINS + 1)
    below = np.interp(grid, positions, cumulative.astype(np.float64), left=0.0)
    # A value on the outermost edge makes a step there, of which np.interp picks a side.
    below[0], below[-1] = 0.0, reached[-1]
    return np.diff(below)


def clipping_divergence(counts: Floats, first: int, stop: int) -> float:
    """KL(P || Q) in nats for the range that bins [first, stop) of `counts` cover.

    P holds the counts with everything outside added to the two end bins. Q is the inside alone, averaged within each
    of 256 levels over the bins that are occupied. A bin that P has and Q has not counts as probability 1e-9.
    """
    inside = counts[first:stop]
    reference = inside.copy()
    reference[0] += counts[:first].sum()
    reference[-1] += counts[stop:].sum()
    quantized = _level_averages(inside)
    if quantized.sum() == 0:
        return float("inf")
    is_occupied = reference > 0
    p = reference[is_occupied] / reference.sum()
    q = np.maximum(quantized[is_occupied] / quantized.sum(), MISSING_PROBABILITY)
    return float((p * np.log(p / q)).sum())


def _level_averages(counts: Floats) -> Floats:
    level = np.arange(counts.size) * N_LEVELS // counts.size
    is_occupied = counts > 0
    totals = np.bincount(level, weights=counts)
    n_occupied = np.bincount(level, weights=is_occupied)
    averages = totals / np.maximum(n_occupied, 1)
    return np.where(is_occupied, averages[level], 0.0)


def _window(counts: Floats, threshold: int) -> tuple[Floats, int, int]:
    occupied = np.flatnonzero(counts)
    first = max(N_BINS - threshold, min(int(occupied[0]), N_BINS))
    stop = min(N_BINS + threshold, max(int(occupied[-1]) + 1, N_BINS))
    return counts, first, stop
