"""How long a kernel keeps resources busy at least, however it is cut into instructions and blocks.

docs/schedule.md has the proof; names follow it. A row of `MIXES` is a weighted sum of resources, which takes no longer
than the busiest of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from isa.instructions import BY_MNEMONIC, Queue
from isa.target import Target
from isa.timing import work_of
from isa.timing.geometry import WORD_BYTES
from npuc.lower.kernel import PARAMETERS, ChannelGroup, Kernel
from npuc.lower.operand import Operand
from npuc.schedule.blocks import Request, request_columns
from npuc.task.task import Compute

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

RESOURCES = ("mac", "vector", "sram-read", "sram-write", "flash")
"""Columns of `MIXES`; "sram-read" is the only port where reads and writes share one, flash what passes it beside one
pass of every parameter."""
MAC, VECTOR, READ, WRITE, FLASH = range(len(RESOURCES))

_STEPS = 6
_TRADED = [(i, 0, j, 0, _STEPS - i - j) for i in range(_STEPS) for j in range(_STEPS - i + 1) if j < _STEPS]
MIXES: Floats = np.vstack([np.eye(4, 5), np.array(_TRADED) / _STEPS])
"""Weights of the resources [mixes, RESOURCES]: each alone, and those that blocks trade for each other."""

_FLASH_SHARES = (1 / 32, 1 / 16, 1 / 9, 1 / 5, 1 / 3, 1 / 2)
_PRIVATE, _TO_READ, _TO_WRITE, _TO_FLASH = range(4)
PARTS: Floats = np.array(
    [(1, 0, 0, 0)]
    + [(c, 0, 1 - c, 0) for c in (0, 1 / 3, 2 / 3)]
    + [(c, (1 - c) * (1 - f), 0, (1 - c) * f) for c in (0, 1 / 3, 2 / 3) for f in _FLASH_SHARES]
)
"""Weights of what an instruction of the array does side by side [parts, 4]: its datapath or output stage, reads and
writes of SRAM, reads of flash. Their weighted sum takes no longer than the longest."""

MOST_BLOCKS = 64
"""Blocks of channels that are counted; with more the weights are taken to cost nothing."""

_UNLIMITED = 1 << 40


def least_cycles(kernels: Sequence[Kernel], target: Target) -> tuple[Ints, Floats]:
    """Channel groups of the kernels of the NPU: number of the kernel [n], cycles of every mixture [n, mixes]."""
    parts = [(i, kernel, task) for i, kernel in enumerate(kernels) if kernel.arm is None for task in _whole(kernel)]
    if not parts:
        return np.zeros(0, np.int64), np.zeros((0, len(MIXES)))
    # Parameters in flash: what is asked of the array and the output stage does not depend on it.
    columns = request_columns([Request(kernel, task, streamed=True) for _, kernel, task in parts])
    work = work_of(columns, _with_unlimited_buffers(target))
    private = np.maximum(work.compute, work.output)
    rows = [_least(kernel, task, int(private[row]), target) for row, (_, kernel, task) in enumerate(parts)]
    return np.array([i for i, *_ in parts], np.int64), np.array(rows)


def _with_unlimited_buffers(target: Target) -> Target:
    costs = replace(
        target.costs, accumulator_bytes=_UNLIMITED, input_buffer_bytes=_UNLIMITED, weight_buffer_bytes=_UNLIMITED
    )  # fmt: skip
    return replace(target, costs=costs)


def _whole(kernel: Kernel) -> Iterator[Compute]:
    """The kernel as one instruction for each channel group of one batch entry, in one block."""
    _, height, width, channels = kernel.space
    groups = kernel.groups or (ChannelGroup(0, channels, 0, 1),)
    for group in groups:
        block = (height, width, -(-(group.stop - group.start) // 8) * 8)
        k, c = range(group.k, group.k + group.k_channels), range(group.start, group.stop)
        yield Compute(kernel.node, kernel.mnemonic, 0, range(height), range(width), c, k, block)


def _least(kernel: Kernel, task: Compute, private: int, target: Target) -> Floats:
    """Cycles of every mixture."""
    cycles = float(kernel.space[0] * private)
    written = float(_words(kernel.ofm, task.c) * math.prod(kernel.space[:3]))
    ports = _Ports.of(target)
    if kernel.is_mac:
        return _array_least(kernel, task, cycles, written, target)
    read = _read_words(kernel)
    used = np.array([0, 0, read / ports.read + (written / ports.read if ports.is_shared else 0),
                     0 if ports.is_shared else written / ports.write, 0])  # fmt: skip
    if BY_MNEMONIC[kernel.mnemonic].queue == Queue.VEC:
        used[VECTOR] = max(cycles, used[READ], used[WRITE])
    least: Floats = MIXES @ used
    return least


@dataclass(frozen=True)
class _Ports:
    """Words a cycle of the ports and of flash; the ports' are without end where operands may lie in DRAM."""

    read: float
    write: float
    flash: float
    is_shared: bool

    @classmethod
    def of(cls, target: Target) -> _Ports:
        board = target.board
        rates = np.array([board.sram_read_bytes_per_cycle, board.sram_write_bytes_per_cycle]) / WORD_BYTES
        read, write = (math.inf, math.inf) if target.architecture.has_dram else rates.tolist()
        return cls(read, write, board.flash_bytes_per_cycle / WORD_BYTES, board.sram_shared_port)


def _array_least(kernel: Kernel, task: Compute, cycles: float, written: float, target: Target) -> Floats:
    """The largest over PARTS of the smallest over the numbers of blocks [mixes]."""
    ports, traffic_of = _Ports.of(target), _conv_traffic if kernel.mnemonic == "mac.conv" else _depthwise_traffic
    traffic = traffic_of(kernel, task, target)
    residual = 0.0
    if kernel.ifm2 is not None and not kernel.computed_weights:
        residual = float(math.prod(kernel.space[:3]) * _words(kernel.ifm2, task.c))
    array, read = MIXES[:, MAC, None] * PARTS[:, _TO_READ], MIXES[:, READ, None]  # [mixes, parts]
    write = MIXES[:, MAC, None] * PARTS[:, _TO_WRITE] + MIXES[:, WRITE, None]
    fixed = MIXES[:, MAC, None] * PARTS[:, _PRIVATE] * cycles + (array + read) * residual / ports.read
    fixed = fixed + ((array + read) * written / ports.read if ports.is_shared else write * written / ports.write)
    later = np.minimum(array / ports.read, MIXES[:, MAC, None] * PARTS[:, _TO_FLASH] / ports.flash)
    again = np.minimum(read / ports.read, MIXES[:, FLASH, None] / ports.flash)
    weight = later[..., None] * traffic.later_weights + again[..., None] * traffic.weights_again
    inputs = (array[..., None] * traffic.later_inputs + read[..., None] * traffic.inputs) / ports.read
    least: Floats = (fixed + (inputs + weight).min(axis=2)).max(axis=1)
    return least


def _read_words(kernel: Kernel) -> float:
    """Words that a vector instruction reads of its inputs in SRAM, tables excepted."""
    words = 0
    if kernel.ifm is not None and kernel.ifm.storage != PARAMETERS and kernel.mnemonic != "vec.bilinear":
        n, height, width, _ = kernel.ifm.shape
        if kernel.mnemonic in ("vec.maxpool", "vec.avgpool"):
            height, width = (_reached(kernel, axis)[0] for axis in (0, 1))
        elif kernel.mnemonic != "vec.mean":
            rows = len(kernel.input_rows(range(kernel.space[1])))
            height, width = (rows, 1) if kernel.mnemonic == "vec.resize" else kernel.space[1:3]
        words += n * height * width * _words(kernel.ifm, range(kernel.space[3]))
    if kernel.ifm2 is not None and kernel.ifm2.storage != PARAMETERS:
        words += math.prod(kernel.space[:3]) * _words(kernel.ifm2, range(kernel.space[3]))
    return float(words)


def _words(operand: Operand, channels: range) -> int:
    """Port words of these channels at one position, at least: each access for itself, wherever it begins."""
    return sum(-(-n * operand.element_bytes // WORD_BYTES) for n in _accesses(operand, channels))


def _accesses(operand: Operand, channels: range) -> list[int]:
    """Channels of each access."""
    cuts = [channels.start, *range(channels.start // operand.c0 * operand.c0 + operand.c0, channels.stop, operand.c0)]
    return [stop - start for start, stop in zip(cuts, [*cuts[1:], channels.stop], strict=True)]


def _reached(kernel: Kernel, axis: int) -> tuple[int, int]:
    """Rows (or pixels) of the input that some window holds, and how many each output can have for itself alone."""
    window = kernel.window
    limit = kernel.ifm.shape[1 + axis] if kernel.ifm is not None else 0
    extent, stride, pad = kernel.space[1 + axis], window.stride[axis], window.pads[axis]
    reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1
    starts = [y * stride - pad for y in range(extent)]
    held = {row for start in starts for row in range(max(start, 0), min(start + reach, limit))}
    own = min(stride, reach)
    skipped = min(pad, reach - own)
    is_inside = starts[0] + skipped >= 0 and starts[-1] + skipped + own <= limit
    return len(held), own if is_inside else 0


@dataclass(frozen=True)
class _Traffic:
    """Words by the number of blocks that the channels of a pixel are cut into: of the inputs; of inputs and weights
    without what an instruction loads first; of the weights beside one pass."""

    inputs: Floats
    later_inputs: Floats
    later_weights: Floats
    weights_again: Floats


def _depthwise_traffic(kernel: Kernel, task: Compute, target: Target) -> _Traffic:
    """Every input once; the first load may be all of an instruction's input and weights."""
    positions = kernel.space[0] * _reached(kernel, 0)[0] * _reached(kernel, 1)[0]
    words = float(positions * _words(kernel.ifm, task.c)) if kernel.ifm is not None else 0.0
    return _Traffic(np.array([words]), *np.zeros((3, 1)))


def _conv_traffic(kernel: Kernel, task: Compute, target: Target) -> _Traffic:
    """For m = 1, 2, ... blocks: each reads the input of its pixels and all weights of its channels.

    A block of p pixels and c channels needs p c accumulators. The sums over blocks are smallest where all are alike.
    """
    n, height, width, _ = kernel.space
    if kernel.ifm is None:
        return _Traffic(*np.zeros((4, 1)))
    m = np.arange(1, min(len(task.c), MOST_BLOCKS) + 2, dtype=np.float64)
    accumulators = target.costs.accumulator_bytes // 2 // 4
    words = coded_bits(kernel, target.architecture.cout_lanes)[task.c.start : task.c.stop] / (8 * WORD_BYTES)
    pixels, once = height * width, words.sum()
    first = _accesses(kernel.ifm, task.k)[0] / len(task.k) * target.architecture.cout_lanes
    again = pixels * np.sqrt(words).sum() ** 2 / (m * accumulators)
    at_most = pixels * (once * first + len(task.c)) / accumulators
    later = np.maximum(np.maximum(again - at_most, once - m * (words.max(initial=0) * first + 1)), 0)
    later[-1], again[-1] = 0, 0
    inputs, later_inputs = (_inputs(kernel, m, channels) for channels in (task.k, _later(kernel.ifm, task.k)))
    return _Traffic(inputs, later_inputs, n * later, n * np.maximum(again - once, 0))


def _later(ifm: Operand, k: range) -> range:
    """Input channels behind the first chunk."""
    return range(k.start + _accesses(ifm, k)[0], k.stop)


def _inputs(kernel: Kernel, m: Floats, channels: range) -> Floats:
    """Words of these input channels where every output pixel reads those of its own m times and the rest once."""
    if kernel.ifm is None or not channels:
        return np.zeros_like(m)
    (rows, own_rows), (pixels, own_pixels) = (_reached(kernel, axis) for axis in (0, 1))
    own = kernel.space[1] * kernel.space[2] * own_rows * own_pixels
    return kernel.space[0] * (own * m + rows * pixels - own) * _words(kernel.ifm, channels)


def coded_bits(kernel: Kernel, lanes: int) -> Floats:
    """Bits of the weights of each output channel: each weight takes as many as an entropy code of all the kernel's
    weights gives it, a channel no more than it has raw. Channels that share the array's lanes share their bits."""
    parameters = kernel.parameters
    weights, per_channel = np.frombuffer(parameters.weights, np.uint8), parameters.weight_channel_bytes
    if not len(weights):
        return np.zeros(kernel.space[3])
    counts = np.bincount(weights, minlength=256)
    bits = np.log2(len(weights) / np.maximum(counts, 1))[weights]
    firsts = np.array([c for group in kernel.groups for c in range(group.start, group.stop, lanes)])
    sizes = np.diff([*firsts, kernel.space[3]])
    means = np.add.reduceat(bits, firsts * per_channel) / sizes
    found: Floats = np.repeat(np.minimum(means, 8.0 * per_channel), sizes)
    return found
