"""Products with one factor for each channel, on the MAC array: a depthwise convolution of one tap whose weights are the
factors in SRAM, where another kernel computes them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isa.descriptors import ElementType
from isa.scale_record import Scales, pack, shortest_form
from npuc.lower.conv import window_fields
from npuc.lower.kernel import PARAMETERS, POINT, ChannelGroup, Kernel, Parameters
from npuc.lower.operand import Operand


def product_on_array(product: Kernel) -> Kernel | None:
    """The array's kernel with the bytes of a vec.mul kernel; None where an operand is not one factor for each channel.

    mul(x, f) = clamp(rescale((x - zero) (f - zero)) + zero) is the output stage of an accumulator of one tap, without
    bias and in double rounding, for all values and scales: requantization and `rescale` are the same function.
    """
    pair = _image_and_factors(product)
    if pair is None:
        return None
    image, factors = pair
    channels = product.space[3]
    constant = (0, product.fields["multiplier_out"], product.fields["shift_out"])
    scales = Scales(*(np.full(channels, value, np.int64) for value in constant))
    form = shortest_form(scales)
    fields = {
        **window_fields(POINT),
        "scale_form": form,
        "double_round": 1,
        "clamp_low": product.fields["clamp_low"],
        "clamp_high": product.fields["clamp_high"],
        "weight_zero_point": factors.zero_point,
    }
    return replace(
        product, mnemonic="mac.depthwise", ifm=image, ifm2=factors, fields=fields, computed_weights=True,
        parameters=Parameters(scales=pack(scales, form)), groups=(ChannelGroup(0, channels, 0, 1),), window=POINT,
    )  # fmt: skip


def _image_and_factors(product: Kernel) -> tuple[Operand, Operand] | None:
    if product.mnemonic != "vec.mul" or not product.spatial or product.ifm is None or product.ifm2 is None:
        return None
    operands = (product.ifm, product.ifm2)
    is_byte = all(operand.element == ElementType.INT8 for operand in (*operands, product.ofm))
    if not is_byte or any(operand.storage == PARAMETERS for operand in operands):
        return None
    for image, factors in (operands, operands[::-1]):
        if image.shape == product.ofm.shape and _are_weights(factors, product.space):
            return image, factors
    return None


def _are_weights(factors: Operand, space: tuple[int, int, int, int]) -> bool:
    """One byte for each of several channels, side by side as a depthwise convolution of one tap packs its weights."""
    _, rows, pixels, channels = space
    is_repeated = factors.shape[1:3] == (1, 1) and rows * pixels > 1
    return is_repeated and factors.c0 > 1 and channels > 1 and (channels <= factors.c0 or factors.block == factors.c0)
