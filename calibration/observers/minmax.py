"""MinMax: every observed value is representable."""

from calibration.histogram import Histogram
from calibration.ranges import Range


def minmax_range(histogram: Histogram) -> Range:
    """The exact smallest and largest value. One outlier costs all other values their resolution."""
    return histogram.minimum, histogram.maximum
