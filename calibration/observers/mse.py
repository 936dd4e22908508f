"""MSE: the range with the least squared quantization error."""

from itertools import product

import numpy as np

from calibration.affine import INTEGER_LIMITS, affine_from_range
from calibration.histogram import Histogram
from calibration.observers.outliers import without_outliers
from calibration.ranges import Range, clip_range, first_least

SHARED_FACTORS = tuple(percent / 100 for percent in range(100, 9, -1))
SIDE_FACTORS = tuple(percent / 100 for percent in range(100, 49, -5))


def mse_range(histogram: Histogram) -> Range:
    """The range with the least sum of (x - dequantize(quantize(x)))**2 for int8; equal errors go to the widest.

    First one threshold cuts both sides, from the largest magnitude down to a tenth of it in steps of 1 %; then each
    side shrinks on its own by up to half, in steps of 5 %.
    """
    histogram = without_outliers(histogram)
    bounds = (min(histogram.minimum, 0.0), max(histogram.maximum, 0.0))
    limit = max(-bounds[0], bounds[1])
    shared = _best(histogram, [clip_range(bounds, limit * factor) for factor in SHARED_FACTORS])
    sides = [(shared[0] * low, shared[1] * high) for low, high in product(SIDE_FACTORS, SIDE_FACTORS)]
    return _best(histogram, sides)


def squared_error(histogram: Histogram, bounds: Range) -> float:
    """Sum over the observed values of their squared int8 quantization error, each taken at the mean of its bin."""
    scale, zero_point = affine_from_range(*bounds)
    qmin, qmax = INTEGER_LIMITS["int8"]
    values = histogram.means
    levels = np.clip(np.rint(values / scale), qmin - zero_point, qmax - zero_point)
    return float((histogram.counts * np.square(values - levels * scale)).sum())


def _best(histogram: Histogram, candidates: list[Range]) -> Range:
    distinct = list(dict.fromkeys(candidates))
    costs = [squared_error(histogram, bounds) for bounds in distinct]
    total = float((histogram.counts * np.square(histogram.means)).sum()) or 1.0
    return distinct[first_least([cost / total for cost in costs])]
