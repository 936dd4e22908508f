"""Cost of the vector instructions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.instructions import BY_MNEMONIC
from isa.resize import ONE
from isa.target import Costs, Rate, Target
from isa.timing.geometry import Axis, Ints, Span, blocked_words, operand_words, plain_span, run_words, window_span
from isa.timing.pace import TABLE_BYTES
from isa.timing.record import Rows, Traffic, latency_cycles, rate_cycles

Amount = Callable[[Rows], Ints]


def _elements(f: Rows) -> Ints:
    return f("height") * f("width") * f("channels")


def _taps(f: Rows) -> Ints:
    return _elements(f) * f("kernel_h") * f("kernel_w")


def _products(f: Rows) -> Ints:
    return 4 * _elements(f)


def _inputs(f: Rows) -> Ints:
    return f("ifm_height") * f("ifm_width") * f("channels")


def _bytes(f: Rows) -> Ints:
    return _elements(f) * f.operand("ofm", "ofm_channels").element


_CLASSES: dict[str, tuple[Callable[[Costs], Rate], Amount]] = {
    "vec.add": (lambda costs: costs.vector_add, _elements),
    "vec.sub": (lambda costs: costs.vector_add, _elements),
    "vec.mul": (lambda costs: costs.vector_mul, _elements),
    "vec.table": (lambda costs: costs.vector_table, _elements),
    "vec.sigmoid": (lambda costs: costs.vector_table, _elements),
    "vec.tanh": (lambda costs: costs.vector_table, _elements),
    "vec.maxpool": (lambda costs: costs.vector_pool, _taps),
    "vec.avgpool": (lambda costs: costs.vector_pool, _taps),
    "vec.mean": (lambda costs: costs.vector_reduce, _inputs),
    "vec.softmax": (lambda costs: costs.vector_softmax, _elements),
    "vec.resize": (lambda costs: costs.vector_copy, _bytes),
    "vec.bilinear": (lambda costs: costs.vector_mul, _products),
    "vec.copy": (lambda costs: costs.vector_copy, _bytes),
}
_TWO_INPUTS = [BY_MNEMONIC[name].opcode for name in ("vec.add", "vec.sub", "vec.mul")]
_WINDOWS = [BY_MNEMONIC[name].opcode for name in ("vec.maxpool", "vec.avgpool")]
_TABLE, _MEAN, _RESIZE, _BILINEAR = (
    BY_MNEMONIC[name].opcode for name in ("vec.table", "vec.mean", "vec.resize", "vec.bilinear")
)


def vector_work(f: Rows, target: Target) -> dict[str, Ints]:
    """Work columns of a group of vector instructions."""
    traffic = Traffic(len(f.index))
    region = plain_span(f("y"), f("height")), plain_span(f("x"), f("width"))
    ifm, ifm2, ofm = (f.operand(*pair) for pair in _OPERANDS)
    rows, pixels, channels = _input_region(f)
    traffic.read(ifm.base, blocked_words(ifm, rows, pixels, channels))
    second = operand_words(ifm2, *region, f("c"), f("channels"))
    traffic.read(ifm2.base, np.where(np.isin(f("opcode"), _TWO_INPUTS), second, 0))
    table_bytes = TABLE_BYTES * ((f("opcode") == _TABLE) | (f("use_table") > 0))
    first = Traffic(len(f.index))
    for loads in (traffic, first):
        loads.read(f("table"), run_words(f("table"), table_bytes), table_bytes)
    traffic.write(ofm.base, operand_words(ofm, *region, f("c"), f("channels")))
    return vars(traffic) | {
        **_compute(f, target.costs),
        "first_read_words": first.read_words,
        "first_flash_bytes": first.flash_bytes,
        "first_dram_bytes": first.dram_bytes,
        "drain_cycles": latency_cycles(ifm.base, target.board),
    }


_OPERANDS = (("ifm", "ifm_channels"), ("ifm2", "ofm_channels"), ("ofm", "ofm_channels"))


def _compute(f: Rows, costs: Costs) -> dict[str, Ints]:
    cycles, elements = np.zeros(len(f.index), np.int64), np.zeros(len(f.index), np.int64)
    for mnemonic, (rate, amount) in _CLASSES.items():
        selected = f("opcode") == BY_MNEMONIC[mnemonic].opcode
        if selected.any():
            elements = np.where(selected, amount(f), elements)
            cycles = np.where(selected, rate_cycles(elements, rate(costs)), cycles)
    return {"compute": cycles, "vector_elements": elements}


def _input_region(f: Rows) -> tuple[Span, Span, Axis]:
    """Rows, pixels and blocks of channels of the first input: a pool reads the windows of each block once, a mean the
    whole input, a resize each input element once, everything else its output region."""
    opcode = f("opcode")
    is_window, is_mean = np.isin(opcode, _WINDOWS), opcode == _MEAN
    one, zero = np.ones_like(opcode), np.zeros_like(opcode)
    spans = []
    for first, extent, suffix, pad, limit, block, scale, offset in (
        ("y", "height", "h", "pad_top", "ifm_height", "block_h", "multiplier_1", "mid_low"),
        ("x", "width", "w", "pad_left", "ifm_width", "block_w", "multiplier_2", "mid_high"),
    ):
        begin, length = f(first), f(extent)
        factor = np.where(opcode == _RESIZE, f(f"stride_{suffix}"), 1)
        start = np.where(is_mean, 0, begin // factor)
        stop = np.where(is_mean, f(limit), (begin + length - 1) // factor + 1)
        lower = np.maximum(begin * f(scale) + f(offset), 0) // ONE
        upper = np.minimum(((begin + length - 1) * f(scale) + f(offset) + ONE - 1) // ONE, f(limit) - 1)
        start, stop = np.where(opcode == _BILINEAR, lower, start), np.where(opcode == _BILINEAR, upper + 1, stop)
        axis = Axis.cut(
            np.where(is_window, begin, start),
            np.where(is_window, length, stop - start),
            np.where(is_window, f(block), _NO_BLOCKS),
        )
        stride, kernel, dilation = (
            np.where(is_window, f(f"{name}_{suffix}"), one) for name in ("stride", "kernel", "dilation")
        )
        before = np.where(is_window, f(pad), zero)
        spans.append(window_span(axis, stride, kernel, dilation, before, np.where(is_window, f(limit), stop)))
    channels = Axis.cut(f("c"), f("channels"), np.where(is_window, 8 * f("block_c"), _NO_BLOCKS))
    return spans[0], spans[1], channels


_NO_BLOCKS = 1 << 30
