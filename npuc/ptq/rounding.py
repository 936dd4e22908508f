"""Rounding of weights that keeps their sums.

Inputs of a layer are mostly not negative (they come out of a Relu), so the errors of its weights add up where their sum
is not zero: a shift of the whole output channel, which to round each weight to nearest leaves to chance. Here as few
weights as possible, those closest to a tie, go to their other neighbor, until the errors of each kernel, and then of
each output channel, sum to less than half a step. Needs no data; after Guo et al., "SQuant" (ICLR 2022).
"""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.graph.types import Array


def round_keeping_sums(weights: Array, limit: int) -> Array:
    """Integers next to weights [oc, ic, ...] given in steps, |result| <= limit; none is off by more than one step."""
    kernels = weights.reshape(-1, prod(weights.shape[2:]))
    rows = weights.reshape(len(weights), -1)
    balanced = _balance(kernels, np.rint(kernels)).reshape(rows.shape)
    return np.clip(_balance(rows, balanced), -limit, limit).reshape(weights.shape)


def _balance(exact: Array, rounded: Array) -> Array:
    """`rounded` with the fewest unit changes after which each row's sum is within half a step of that of `exact`.

    Changed are the elements that are furthest off in the direction of the row's error.
    """
    error = rounded - exact
    excess = np.rint(error.sum(axis=1, keepdims=True))
    order = np.argsort(-error * np.sign(excess), axis=1, kind="stable")
    is_first = np.arange(exact.shape[1]) < np.abs(excess)
    step = np.zeros_like(exact)
    np.put_along_axis(step, order, np.where(is_first, np.sign(excess), 0.0), axis=1)
    return np.asarray(rounded - step)
