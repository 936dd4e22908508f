"""Fixed-point sigmoid and tanh against the real functions, and where TensorFlow Lite defines single values."""

import numpy as np
import pytest

from isa.fixed_point import logistic, tanh
from isa.sigmoid import SIGMOID_TABLE, sigmoid16, tanh16

INT16 = np.arange(-32768, 32768, dtype=np.int64)


def test_the_table_is_that_of_the_real_function() -> None:
    real = 65536 / (1 + np.exp(-np.arange(256) / 24))
    assert np.abs(SIGMOID_TABLE - real).max() < 1.2
    assert (np.diff(SIGMOID_TABLE) >= 0).all()


def test_int16_sigmoid_is_near_the_real_function_and_symmetric() -> None:
    got = sigmoid16(INT16)
    assert np.abs(got - 32768 / (1 + np.exp(-INT16 / 4096))).max() < 4
    assert np.abs(got[1:] + got[:0:-1] - 32768).max() <= 1
    assert got[32768] == 16384


@pytest.mark.parametrize("integer_bits", [0, 1, 3, 4, 7])
def test_int16_tanh_is_near_the_real_function_and_odd(integer_bits: int) -> None:
    got = tanh16(INT16, integer_bits)
    assert np.abs(got - 32768 * np.tanh(INT16 / 2.0 ** (15 - integer_bits))).max() < 8
    assert np.abs(got[1:] + got[:0:-1]).max() <= 3  # a scaled argument is rounded half up
    assert got[32768] == 0


def test_int32_functions_are_near_the_real_ones() -> None:
    value = np.linspace(-(1 << 31) + 1, (1 << 31) - 1, 4001).astype(np.int64)
    real = value / 2.0**27
    assert np.abs(logistic(value) - 2.0**31 / (1 + np.exp(-real))).max() < 2**10
    assert np.abs(tanh(value) - 2.0**31 * np.tanh(real)).max() < 2**10
    assert logistic(np.array([0]))[0] == 1 << 30
    assert tanh(np.array([0]))[0] == 0
