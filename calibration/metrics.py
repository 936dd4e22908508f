"""How close the quantized network is to the float one. Every metric refuses NaN, infinities and unequal shapes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError
from calibration.finite import require_finite

Array = NDArray[Any]
Floats = NDArray[np.float64]


def sqnr_db(ref: Array, test: Array) -> float:
    """Signal to quantization noise ratio in dB over all elements: 10 log10(sum ref**2 / sum (ref - test)**2).

    ref, test of one shape; sums in float64. No error: inf, also when ref is all zero. Error on an all-zero ref: -inf.
    """
    ref64, test64 = _comparable(ref, test)
    return float(_ratio_db(np.square(ref64).sum(), np.square(ref64 - test64).sum()))


def channel_sqnr_db(ref: Array, test: Array, axis: int) -> Floats:
    """`sqnr_db` of each index of `axis` alone [channels]."""
    ref64, test64 = _comparable(ref, test)
    others = tuple(i for i in range(ref64.ndim) if i != axis % ref64.ndim)
    return _ratio_db(np.square(ref64).sum(axis=others), np.square(ref64 - test64).sum(axis=others))


def cosine(ref: Array, test: Array) -> float:
    """Cosine similarity of all elements as one vector, -1 to 1: sum ref test / (|ref| |test|).

    Two all-zero arrays: 1. One all-zero array: 0.
    """
    ref64, test64 = _comparable(ref, test)
    norms = float(np.sqrt(np.square(ref64).sum()) * np.sqrt(np.square(test64).sum()))
    if norms == 0:
        return 1.0 if np.array_equal(ref64, test64) else 0.0
    return min(max(float((ref64 * test64).sum()) / norms, -1.0), 1.0)


def top1(logits: Array, labels: NDArray[np.integer[Any]]) -> float:
    """Fraction of samples, 0 to 1, whose largest logit is at the label. logits [n, ...classes], labels [n].

    Axes after the first are taken as one; of equal logits the first counts.
    """
    predictions = _predictions(logits)
    if predictions.shape != labels.shape:
        raise CalibrationError(
            f"labels have shape {list(labels.shape)}, must be {list(predictions.shape)}",
            hint="give one label per sample",
        )
    return float((predictions == labels).mean())


def agreement(a: Array, b: Array) -> float:
    """Fraction of samples, 0 to 1, whose largest logit is at the same index in both. a, b [n, ...classes]."""
    _comparable(a, b)
    return float((_predictions(a) == _predictions(b)).mean())


def _predictions(logits: Array) -> NDArray[np.int64]:
    require_finite(logits, "logits")
    if logits.ndim < 2 or logits.size == 0:
        raise CalibrationError(
            f"logits have shape {list(logits.shape)}, must be [samples, classes], not empty",
            hint="keep axis 0 as samples",
        )
    return np.asarray(logits.reshape(len(logits), -1).argmax(axis=1), np.int64)


def _comparable(ref: Array, test: Array) -> tuple[Floats, Floats]:
    if ref.shape != test.shape or ref.size == 0:
        raise CalibrationError(
            f"shapes {list(ref.shape)} and {list(test.shape)} must be equal and not empty",
            hint="compare the same tensor over the same samples",
        )
    require_finite(ref, "reference")
    require_finite(test, "tested array")
    return ref.astype(np.float64), test.astype(np.float64)


def _ratio_db(signal: Floats, noise: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 10 * (np.log10(signal) - np.log10(noise))
    return np.where(noise == 0, np.inf, ratio)
