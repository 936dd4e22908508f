"""Scale factors of integer operators, found from real scales."""

from __future__ import annotations

from isa.arithmetic import ADD_LEFT_SHIFT, Rescale, quantize_multiplier

__all__ = ["Rescale", "addition_rescales", "quantize_multiplier"]


def addition_rescales(first: float, second: float, output: float) -> tuple[Rescale, Rescale, Rescale]:
    """Rescales of both operands and of the result of an addition of tensors with these scales.

    Operands come to the common scale twice the larger one, so that their sum cannot overflow; the result returns
    from there and from the left shift of 2^20. ValueError: a factor is out of range.
    """
    common = 2 * max(first, second)
    return (
        quantize_multiplier(first / common),
        quantize_multiplier(second / common),
        quantize_multiplier(common / ((1 << ADD_LEFT_SHIFT) * output)),
    )
