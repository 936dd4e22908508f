"""The compiled requantization against the normative one: ties, both signs, the ends of 32 bits, every shift."""

import numpy as np
import pytest

from isa import arithmetic
from simulator.execute import requantize as module
from simulator.execute.requantize import Requantization, requantize

EDGES = (0, 1, 2, 3, 127, 1 << 15, 1 << 29, 1 << 30, (1 << 31) - 1)


def cases(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sums [many, channels], multiplier and shift [channels]: every shift with multipliers that make ties."""
    shift = np.repeat(np.arange(2, 63, dtype=np.uint8), 4)
    multiplier = np.tile(np.array([1 << 30, 3 << 29, (1 << 31) - 1, 0], np.int32), 61)
    multiplier[::7] = rng.integers(1 << 30, 1 << 31, len(multiplier[::7])).astype(np.int32)
    near_ties = [value + step for bit in range(31) for value in (1 << bit, 3 << bit >> 1) for step in (-1, 0, 1)]
    values = np.array([*EDGES, *near_ties, *rng.integers(0, 1 << 31, 200)], np.int64)
    sums = np.unique(np.concatenate([values, -values, -values - 1])).clip(-(1 << 31), (1 << 31) - 1)
    return np.repeat(sums.astype(np.int32)[:, None], len(shift), axis=1), multiplier, shift


@pytest.mark.parametrize("double_round", [False, True])
@pytest.mark.parametrize(("dtype", "zero_point", "low", "high"), [(np.int8, -7, -128, 127), (np.uint8, 128, 3, 250)])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_requantization_equals_the_normative_arithmetic(
    double_round: bool,
    dtype: type[np.int8] | type[np.uint8],
    zero_point: int,
    low: int,
    high: int,
    is_compiled: bool,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IS_COMPILED", is_compiled)
    sums, multiplier, shift = cases(rng)
    out = np.empty(sums.shape, dtype)
    requantize(sums, multiplier, shift, Requantization(zero_point, low, high, double_round), out)
    assert (out == arithmetic.requantize(sums, multiplier, shift, zero_point, low, high, double_round)).all()
