"""Exact sums over windows: im2col views, and integer products through float32 matrix multiplication."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from npuc.graph.types import Array
from npuc.ops.window import Window

EXACT_FLOAT32 = 1 << 24
"""Integers up to this magnitude are exact in float32, and so are sums that stay within it."""

_LARGEST_VALUE = 255
"""Of an int8 or uint8 value minus its zero point."""


def pad_window(x: Array, window: Window, fill: int) -> Array:
    """x [n,c,h,w] with the window's pads filled with `fill`."""
    top, left, bottom, right = window.pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)


def window_view(padded: Array, window: Window) -> Array:
    """View [n,c,oh,ow,kh,kw] of the windows of padded [n,c,h,w]."""
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.stride, window.dilation
    reach = ((kh - 1) * dh + 1, (kw - 1) * dw + 1)
    view: Array = sliding_window_view(padded, reach, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
    return view


def convolve(
    x: Array, weights: Array, window: Window, groups: int, zero_point: int, weight_zero_point: int = 0
) -> Array:
    """Sums of (x - zero_point) * (weights - weight_zero_point) over each window, padding counting as zero.

    x int8 or uint8 [n,ic,h,w]; weights int8 [oc,ic/groups,kh,kw]; result int32 [n,oc,oh,ow], modulo 2^32.
    """
    padded = pad_window(x, window, zero_point).astype(np.int16) - np.int16(zero_point)
    weights = weights.astype(np.int16) - np.int16(weight_zero_point)
    if groups > 1 and weights.shape[1] == 1:
        return _convolve_depthwise(padded.repeat(weights.shape[0] // groups, axis=1), weights, window)
    patches = window_view(padded.astype(np.float32), window).transpose(0, 1, 4, 5, 2, 3)
    n, oh, ow = patches.shape[0], *patches.shape[4:]
    columns = patches.reshape(n, groups, -1, oh * ow)
    rows = weights.astype(np.float32).reshape(groups, weights.shape[0] // groups, -1)
    return matmul_exact(rows, columns).reshape(n, weights.shape[0], oh, ow)


def _convolve_depthwise(padded: Array, weights: Array, window: Window) -> Array:
    """One kernel [1,kh,kw] a channel, tap by tap: padded int16 [n,c,h,w], weights int16 [c,1,kh,kw]."""
    taps = window_view(padded.astype(np.int32), window)
    total = np.zeros(taps.shape[:4], np.int32)
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            total += taps[..., row, column] * weights[:, 0, row, column].astype(np.int32)[:, None, None]
    return total


def matmul_exact(rows: Array, columns: Array) -> Array:
    """rows [..., m, k] @ columns [..., k, p] as int32, modulo 2^32; float32 integers of at most 9 bits.

    Each chunk of k is summed by BLAS in float32, where no partial sum can be rounded, and added up in integers.
    """
    chunk = EXACT_FLOAT32 // (_LARGEST_VALUE * max(int(np.abs(rows).max(initial=0)), 1))
    total: Array = np.matmul(rows[..., :chunk], columns[..., :chunk, :]).astype(np.int32)
    for start in range(chunk, rows.shape[-1], chunk):
        total += np.matmul(rows[..., start : start + chunk], columns[..., start : start + chunk, :]).astype(np.int32)
    return total
