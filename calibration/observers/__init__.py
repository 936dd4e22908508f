"""Observers: what range of a tensor int8 should cover, learned from the values it takes.

An observer is a histogram and a function from histogram to range. To add one, write the function in a file of its own
and give it a name in OBSERVERS.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.finite import require_no_nan
from calibration.histogram import Histogram
from calibration.observers.entropy import entropy_range
from calibration.observers.minmax import minmax_range
from calibration.observers.mse import mse_range
from calibration.observers.outliers import OUTLIER_RATIO, typical_magnitude, without_outliers
from calibration.observers.percentile import percentile_range
from calibration.ranges import Range

PENDING_VALUES = 1 << 16
"""Counting has a cost for each call, which small tensors pay once for many arrays."""

RangeSearch = Callable[[Histogram], Range]

OBSERVERS: dict[str, RangeSearch] = {
    "minmax": minmax_range,
    "percentile": percentile_range,
    "entropy": entropy_range,
    "mse": mse_range,
}


@dataclass
class Observer:
    """Sees every value of one tensor, in any number of arrays, and then gives its range.

    `tensor` names it in messages. The order of the arrays does not matter, and memory does not grow with their number.
    """

    tensor: str
    search: RangeSearch
    n_infinite: int = 0
    _counted: Histogram = field(default_factory=Histogram)
    _pending: list[NDArray[np.float32]] = field(default_factory=list)
    _n_pending: int = 0

    def observe(self, array: NDArray[Any]) -> None:
        """Count the values of an array of any shape; infinities are left out and noted. NaN raises CalibrationError."""
        with np.errstate(over="ignore"):
            values = np.asarray(array, np.float32)
        finite = values[np.isfinite(values)]
        if finite.size < values.size:
            require_no_nan(array, f"tensor {self.tensor}")
            self.n_infinite += values.size - finite.size
        self._pending.append(finite)
        self._n_pending += finite.size
        if self._n_pending >= PENDING_VALUES:
            self._count_pending()

    def histogram(self) -> Histogram:
        """The histogram of all finite values seen so far."""
        if self._pending:
            self._count_pending()
        return self._counted

    def _count_pending(self) -> None:
        self._counted.add(np.concatenate(self._pending))
        self._pending, self._n_pending = [], 0

    def range(self) -> Range:
        """The range (lo, hi) of the values seen. CalibrationError if there was none."""
        if self.histogram().n_values == 0:
            raise CalibrationError(
                f"tensor {self.tensor}: no finite value was observed, at least 1 is needed",
                hint="give samples for which this tensor is computed",
            )
        return self.search(self.histogram())

    def notes(self) -> tuple[str, ...]:
        """What the user should know of this tensor's range, one line each; most often nothing."""
        return tuple(note for note in (self._wide_range(), self._left_out(), self._infinities()) if note)

    def _wide_range(self) -> str:
        lo, hi = self.range()
        typical = typical_magnitude(self.histogram())
        largest = max(abs(lo), abs(hi))
        if typical == 0 or largest <= OUTLIER_RATIO * typical:
            return ""
        return (
            f"tensor {self.tensor}: range [{lo:.6g}, {hi:.6g}] is {largest / typical:.0f} times the 99.9 percentile "
            f"{typical:.6g} of its magnitudes; compare another observer"
        )

    def _left_out(self) -> str:
        if self.search is minmax_range:
            return ""
        histogram = self.histogram()
        n_outliers = histogram.n_values - without_outliers(histogram).n_values
        if n_outliers == 0:
            return ""
        return (
            f"tensor {self.tensor}: {n_outliers} of {histogram.n_values} values are isolated outliers "
            f"(largest magnitude {max(-histogram.minimum, histogram.maximum):.6g}) and saturate"
        )

    def _infinities(self) -> str:
        if self.n_infinite == 0:
            return ""
        return f"tensor {self.tensor}: {self.n_infinite} infinite values were left out of its range and saturate"


def new_observer(name: str, tensor: str) -> Observer:
    """An observer for `tensor`: a name in OBSERVERS, or `percentile:P` with 50 < P <= 100."""
    return Observer(tensor, find_search(name))


def find_search(name: str) -> RangeSearch:
    """The range search of an observer's name. CalibrationError lists the names for an unknown one."""
    kind, _, argument = name.partition(":")
    if kind == "percentile" and argument:
        return partial(percentile_range, percent=_parse_percent(argument))
    if name in OBSERVERS:
        return OBSERVERS[name]
    raise CalibrationError(
        f"observer {name!r} is unknown, allowed are {', '.join(OBSERVERS)}", hint="choose one of these names"
    )


def _parse_percent(text: str) -> float:
    try:
        percent = float(text)
    except ValueError:
        percent = float("nan")
    if 50 < percent <= 100:
        return percent
    raise CalibrationError(
        f"observer percentile:{text}: percentile must be above 50 and at most 100",
        hint="write for example percentile:99.9",
    )
