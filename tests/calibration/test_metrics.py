"""Accuracy metrics on hand-computed values."""

import math

import numpy as np
import pytest

from calibration import CalibrationError, agreement, channel_sqnr_db, cosine, sqnr_db, top1

ONES = np.ones(4, np.float32)
ZEROS = np.zeros(4, np.float32)


def test_sqnr_is_ten_decades_of_power_per_ten_db() -> None:
    assert sqnr_db(ONES, ONES * np.float32(0.9)) == pytest.approx(20, abs=1e-5)
    assert sqnr_db(np.array([3.0, 4.0]), np.array([3.0, 3.5])) == pytest.approx(20)


def test_sqnr_of_no_error_and_of_no_signal_is_infinite() -> None:
    assert sqnr_db(ONES, ONES) == math.inf
    assert sqnr_db(ZEROS, ZEROS) == math.inf
    assert sqnr_db(ZEROS, ONES) == -math.inf


def test_integers_do_not_wrap_in_sqnr() -> None:
    assert sqnr_db(np.array([127], np.int8), np.array([-128], np.int8)) == pytest.approx(20 * math.log10(127 / 255))


def test_channel_sqnr_is_the_sqnr_of_each_channel() -> None:
    rng = np.random.default_rng(0)
    ref, test = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
    test[:, 2] = ref[:, 2]
    expected = [sqnr_db(ref[:, c], test[:, c]) for c in range(3)]
    np.testing.assert_allclose(channel_sqnr_db(ref, test, axis=1), expected)
    np.testing.assert_allclose(channel_sqnr_db(ref, test, axis=-2), expected)


def test_cosine_of_parallel_opposite_orthogonal_and_zero_vectors() -> None:
    assert cosine(ONES, 3 * ONES) == pytest.approx(1)
    assert cosine(ONES, -ONES) == pytest.approx(-1)
    assert cosine(np.array([1, 0]), np.array([0, 1])) == 0
    assert cosine(ZEROS, ZEROS) == 1
    assert cosine(ZEROS, ONES) == 0


def test_top1_and_agreement_count_samples() -> None:
    logits = np.array([[1, 2], [3, 0], [5, 5]])
    assert top1(logits, np.array([1, 1, 0])) == pytest.approx(2 / 3)
    assert top1(logits.reshape(3, 2, 1, 1), np.array([1, 0, 0])) == 1
    assert agreement(logits, -logits) == pytest.approx(1 / 3)


@pytest.mark.parametrize("metric", [sqnr_db, cosine, agreement])
def test_unequal_shapes_and_nan_are_refused(metric: object) -> None:
    assert callable(metric)
    with pytest.raises(CalibrationError, match=r"shapes \[2, 2\] and \[2, 3\] must be equal and not empty"):
        metric(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(CalibrationError, match=r"tested array: value nan at index \[0, 0\]"):
        metric(np.ones((1, 2)), np.array([[np.nan, 1]]))


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(CalibrationError, match=r"labels have shape \[2\], must be \[3\]"):
        top1(np.ones((3, 2)), np.array([0, 1]))
    with pytest.raises(CalibrationError, match=r"logits have shape \[3\], must be \[samples, classes\]"):
        top1(np.ones(3), np.array([0, 1, 1]))
