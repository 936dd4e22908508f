"""What a call has to do, in units that cost a fixed number of instructions each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from npuc.arm.kernel_function import FUNCTIONS, KINDS
from npuc.arm.kernel_spec import ABSENT
from npuc.arm.parameters import decode_parameters

BLOCK_CHANNELS = 32
"""Output channels of a depthwise convolution that are computed together."""


@dataclass(frozen=True)
class Work:
    """Units of work of a call.

    `variant` is the kernel, with what makes another path of it: "conv2d.depthwise". `runs` are loops that are entered,
    `elements` what they produce (a copy: bytes), `macs` products, taps, or what a reduction reads.
    """

    variant: str
    runs: int = 0
    elements: int = 0
    macs: int = 0


Values = Mapping[str, Any]


def work(kernel: str, parameters: bytes) -> Work:
    """What a call of a kernel with this record has to do."""
    values = decode_parameters(kernel, parameters)
    return _RULES.get(kernel, _rows)(kernel, values)


def _rows(kernel: str, values: Values) -> Work:
    """Element by element, along rows."""
    size = values["y"]["size"]
    return Work(kernel, prod(size[:-1]), prod(size))


def _conv2d(kernel: str, values: Values) -> Work:
    x, weights, y = (values[name] for name in ("x", "weights", "y"))
    n, oc, oh, ow = y["size"]
    _, depth, kh, kw = weights["size"]
    outputs, macs = prod(y["size"]), prod(y["size"]) * depth * kh * kw
    elements = outputs if values["other"]["at"]["memory"] == ABSENT else 2 * outputs  # a residual costs as much again
    if depth == 1 and oc == values["groups"]:
        is_packed = x["stride"][1] == 1 and weights["stride"][0] == 1
        runs = n * oh * ow * kh * kw * -(-oc // BLOCK_CHANNELS)
        return Work(f"{kernel}.depthwise" if is_packed else f"{kernel}.strided", runs, elements, macs)
    is_packed = depth == 1 or x["stride"][1] == weights["stride"][1] == 1
    step = x["stride"][3] * values["window"]["dilation"][1]
    is_row_packed = is_packed and step == weights["stride"][3] == depth
    runs = outputs * kh * (1 if is_row_packed else kw)
    return Work(kernel if is_packed else f"{kernel}.strided", runs, elements, macs)


def _pool(kernel: str, values: Values) -> Work:
    return Work(kernel, 0, prod(values["y"]["size"]), prod(values["y"]["size"]) * prod(values["window"]["kernel"]))


def _mean(kernel: str, values: Values) -> Work:
    return Work(kernel, 0, prod(values["y"]["size"]), prod(values["x"]["size"]))


def _softmax(kernel: str, values: Values) -> Work:
    n = prod(values["x"]["size"])
    return Work(kernel, n // values["x"]["size"][values["axis"]], n)


def _resize(kernel: str, values: Values) -> Work:
    n = prod(values["y"]["size"])
    return Work(kernel, n, n * values["item_bytes"])


def _resize_bilinear(kernel: str, values: Values) -> Work:
    size = values["y"]["size"]
    return Work(kernel, prod(size[2:]), prod(size))


def _copy(kernel: str, values: Values) -> Work:
    is_dense = values["source_stride"][-1] == values["destination_stride"][-1] == 1
    return Work(kernel if is_dense else f"{kernel}.strided", prod(values["size"][:-1]), prod(values["size"]))


def _lstm(kernel: str, values: Values) -> Work:
    n = prod(values["y"]["size"])
    return Work(kernel, 0, n, 4 * n * (values["weights"]["size"][3] + values["recurrent"]["size"][3]))


def _arg_max(kernel: str, values: Values) -> Work:
    rows = prod(values["y"]["size"])
    kind = next(name for name, number in KINDS.items() if number == values["x_kind"])
    variant = {"int8": kernel, "float32": f"{kernel}.float32"}.get(kind, f"{kernel}.wide")
    return Work(variant, rows, rows * values["count"])


def _to_float(kernel: str, values: Values) -> Work:
    found = _rows(kernel, values)
    return Work(f"{kernel}.int64", found.runs, found.elements) if values["x_kind"] == KINDS["int64"] else found


def _gather_nd(kernel: str, values: Values) -> Work:
    rows, size = prod(values["y"]["size"]), values["size"]
    is_dense = values["source_stride"][-1] == values["destination_stride"][-1] == 1 or size[-1] == 1
    return Work(kernel if is_dense else f"{kernel}.strided", rows * prod(size[:-1]), rows * prod(size))


def _by_function(family: str) -> Callable[[str, Values], Work]:
    names = {number: name for name, number in FUNCTIONS[family].items()}

    def rule(kernel: str, values: Values) -> Work:
        found = _rows(kernel, values)
        return Work(f"{kernel}.{names[values['function']]}", found.runs, found.elements)

    return rule


def _float_softmax(kernel: str, values: Values) -> Work:
    rows = prod(values["y"]["size"])
    return Work(f"{kernel}.log" if values["is_log"] else kernel, rows, rows * values["count"])


def _float_conv2d(kernel: str, values: Values) -> Work:
    outputs = prod(values["y"]["size"])
    _, depth, kh, kw = values["weights"]["size"]
    return Work(kernel, outputs * kh * kw, outputs, outputs * kh * kw * depth)


def _float_pool(kernel: str, values: Values) -> Work:
    name = next(name for name, number in FUNCTIONS["pool"].items() if number == values["function"])
    found = _pool(kernel, values)
    return Work(f"{kernel}.{name}", 0, found.elements, found.macs)


def _float_matmul(kernel: str, values: Values) -> Work:
    outputs = prod(values["y"]["size"])
    return Work(kernel, 0, outputs, outputs * values["first"]["size"][3])


_RULES: dict[str, Callable[[str, Values], Work]] = {
    "conv2d": _conv2d,
    "max_pool": _pool,
    "average_pool": _pool,
    "mean": _mean,
    "softmax": _softmax,
    "squash": _by_function("squash"),
    "lstm": _lstm,
    "resize": _resize,
    "resize_bilinear": _resize_bilinear,
    "copy": _copy,
    "arg_max": _arg_max,
    "index_arithmetic": _by_function("index"),
    "gather_nd": _gather_nd,
    "to_float": _to_float,
    "float_unary": _by_function("unary"),
    "float_binary": _by_function("binary"),
    "float_softmax": _float_softmax,
    "float_conv2d": _float_conv2d,
    "float_pool": _float_pool,
    "float_matmul": _float_matmul,
}
"""Kernels that are not here work element by element."""
