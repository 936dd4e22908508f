"""Instructions of the Arm core's kernels: `python -m benchmarks.kernel_instructions [--write]`.

Counts what calls of many shapes execute on an emulated Cortex-M33 (gcc -O2), fits the instructions that each unit of
work costs (npuc/arm/work.py), and prints the fit's largest error for each kernel. `--write` puts the figures into
npuc/arm/instructions.json, which the compiler reads.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from isa.arithmetic import softmax_scale
from npuc.arm.cost import TABLE, TENTHS
from npuc.arm.work import Work, work
from npuc.firmware.toolchain import TARGETS, build_kernels, find_compiler
from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Clip, Div, Mul, Sub
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup, QAdd, QMul
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize, ToFloat
from npuc.ops.integer.indexing import ArgMax, GatherNd, IndexArithmetic
from npuc.ops.integer.lstm import QLstm
from npuc.ops.integer.pool import QAveragePool, QMaxPool, QMean
from npuc.ops.integer.rescale import Rescale
from npuc.ops.integer.resize import QResizeBilinear
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.integer.squash import Squash
from npuc.ops.matmul import MatMul
from npuc.ops.normalize import Softmax
from npuc.ops.pool import AveragePool, MaxPool
from npuc.ops.structure import ResizeNearest, Transpose
from npuc.ops.unary import FUNCTIONS, Unary
from npuc.ops.window import Window
from simulator.arm_kernels import ArmKernels
from tests.firmware.operators import Case

CORE = "cortex-m33"
SCALE = Rescale(1518500250, 38)
RANGE = (-128, 127)
UNITS = ("call", "run", "element", "mac")
IMAGES = [(1, 8, 6, 6), (1, 3, 9, 5), (1, 32, 4, 4), (1, 17, 1, 1), (1, 64, 7, 2), (1, 100, 8, 8)]


@dataclass(frozen=True)
class Measurement:
    """A call: its work, and the instructions that it executed."""

    work: Work
    instructions: int


def integers(*shape: int, dtype: str = "int8", seed: int = 0) -> Array:
    """Any values of the type."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, dtype, endpoint=True)


def reals(*shape: int, seed: int = 0) -> Array:
    """Normal values."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def convolutions() -> Iterator[Case]:
    """Dense and depthwise, channels last; dense with channels apart."""
    for kernel, stride, depth, oc, size in ((1, 1, 8, 8, 6), (1, 1, 64, 32, 4), (1, 1, 33, 10, 5), (3, 1, 3, 16, 8),
                                            (3, 2, 16, 16, 9), (3, 1, 32, 40, 5), (5, 1, 4, 8, 9), (1, 1, 256, 10, 1),
                                            (1, 2, 16, 64, 8), (3, 1, 64, 8, 4)):  # fmt: skip
        window = Window((kernel, kernel), (stride, stride))
        operands = [integers(1, depth, size, size), integers(oc, depth, kernel, kernel), integers(oc, dtype="int32")]
        op = QConv(window, 1, -3, 4, (SCALE.multiplier,) * oc, (SCALE.shift,) * oc, True, RANGE)
        yield Case(op, operands, (1, 2), None)
        yield Case(op, operands, (1, 2), 1)
        floats = [reals(1, depth, size, size), reals(oc, depth, kernel, kernel), reals(oc)]
        yield Case(Conv(window), floats, (1, 2), None)
    for kernel, c, size in ((3, 8, 8), (3, 64, 5), (3, 33, 6), (5, 16, 7), (1, 40, 4), (3, 96, 4)):
        operands = [integers(1, c, size, size), integers(c, 1, kernel, kernel), integers(c, dtype="int32")]
        op = QConv(Window((kernel, kernel)), c, -3, 4, (SCALE.multiplier,) * c, (SCALE.shift,) * c, True, RANGE)
        yield Case(op, operands, (1, 2), None)


def elementwise(shape: tuple[int, ...]) -> Iterator[Case]:
    """Every operator that visits elements, on dense operands and on one that is broadcast."""
    x, other, column = integers(*shape), integers(*shape, seed=1), integers(1, shape[1], 1, 1)
    for second in (other, column):
        yield Case(QAdd(20, SCALE, SCALE, SCALE, 1, 2, 3, RANGE), [x, second], (), None)
        yield Case(QMul(SCALE, 1, 2, 3, RANGE), [x, second], (), None)
        real = second.astype(np.float32)
        for op in (Add(), Sub(), Mul(), Div()):
            yield Case(op, [reals(*shape), real + np.float32(0.5)], (), None)
    for function in ("add", "sub", "mul", "floor_div"):
        operands = [integers(*shape, dtype="int32"), integers(*shape, dtype="int32", seed=1) | 1]
        yield Case(IndexArithmetic(function), operands, (), None)
    yield Case(Lookup(tuple(range(-128, 128))), [x], (), None)
    yield Case(Quantize(0.02, 3), [reals(*shape)], (), None)
    yield Case(Dequantize(0.02, 3), [x], (), None)
    for kind in ("int32", "int64"):
        yield Case(ToFloat(), [integers(*shape, dtype=kind)], (), None)
    for squash in (Squash("sigmoid"), Squash("tanh")):
        yield Case(squash, [integers(*shape, dtype="int16")], (), None)
    for name, row in FUNCTIONS.items():
        parameters = (1.7,) if name == "pow" else tuple(default for _, default in row.attributes)
        positive = name in ("log", "sqrt", "pow")
        yield Case(Unary(name, parameters), [np.abs(reals(*shape)) if positive else reals(*shape)], (), None)
    yield Case(Clip(0.0, 6.0), [reals(*shape)], (), None)


def windows(shape: tuple[int, ...]) -> Iterator[Case]:
    """Pooling, means, resizing."""
    for size in (2, 3):
        if min(shape[2:]) < size:
            continue
        window = Window((size, size), (size - 1, size - 1))
        yield Case(QMaxPool(window, RANGE), [integers(*shape)], (), None)
        yield Case(QAveragePool(window, RANGE), [integers(*shape)], (), None)
        yield Case(MaxPool(window), [reals(*shape)], (), None)
        yield Case(AveragePool(window), [reals(*shape)], (), None)
    yield Case(QMean(SCALE, 1, 2, RANGE), [integers(*shape)], (), None)
    yield Case(ResizeNearest((2, 2)), [integers(*shape)], (), None)
    yield Case(ResizeNearest((2, 2)), [reals(*shape)], (), None)
    yield Case(QResizeBilinear((9, 7), half_pixel_centers=True), [integers(*shape)], (), None)


def rows() -> Iterator[Case]:
    """Softmax, positions, products, LSTM, copies."""
    for n, k in ((1, 10), (4, 33), (20, 7), (2, 200), (9, 64)):
        yield Case(QSoftmax(*softmax_scale(1.0, 0.05), 3), [integers(1, n, 1, k)], (), None)
        yield Case(Softmax(1), [reals(n, k)], (), None)
        yield Case(LogSoftmax(), [reals(n, k)], (), None)
        yield Case(ArgMax(1), [integers(n, k)], (), None)
        yield Case(ArgMax(1), [integers(n, k, dtype="int32")], (), None)
        yield Case(ArgMax(1), [reals(n, k)], (), None)
        yield Case(MatMul(), [reals(n, k), reals(k, 12)], (), None)
        for shuffle in (None, 1, 2):  # rows dense, and strided
            yield Case(GatherNd(), [integers(5, k), np.arange(n, dtype=np.int32).reshape(n, 1)], (), shuffle)
        yield Case(Transpose((1, 0)), [integers(n, k)], (), None)
        yield Case(Transpose((1, 0)), [reals(n, k)], (), None)
        yield Case(Transpose((1, 0, 2)), [integers(n, 3, k)], (), None)
        yield Case(Transpose((0, 1)), [integers(n, k)], (), None)
    for steps, k, units in ((1, 8, 4), (3, 20, 16), (2, 5, 33)):
        shapes = ((1, steps, k), (4 * units, k), (4 * units, units))
        op = QLstm(0, 0, (SCALE,) * 4, (SCALE,) * 4, SCALE, SCALE, SCALE, 4)
        operands = [*(integers(*shape) for shape in shapes), integers(4 * units, dtype="int32") >> 14]
        yield Case(op, operands, (1, 2, 3), None)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from convolutions()
    for shape in IMAGES:
        yield from elementwise(shape)
        yield from windows(shape)
    yield from rows()


def measure(case: Case, kernels: ArmKernels) -> Iterator[Measurement]:
    """The calls of a case; each runs on the memories that the ones before have left."""
    program = case.program()
    sram = np.zeros(program.n_sram_bytes, np.uint8)
    for name in program.graph.inputs:
        program.views[name].array(sram, program.flash)[...] = case.operands[int(name[1:])]
    for _, call in program.calls:
        row = (call.kernel_id, call.version, call.parameters)
        yield Measurement(work(call.kernel, call.parameters), kernels.n_instructions(row, sram, program.flash))
        kernels.run([row], sram, program.flash)


def fit(measured: list[Measurement]) -> list[int]:
    """Tenths of an instruction of each unit, none negative, with the least sum of squared relative errors."""
    units = np.array([(1, m.work.runs, m.work.elements, m.work.macs) for m in measured], float)
    counts = np.array([m.instructions for m in measured], float)
    rows = units / counts[:, None]
    best, found = np.inf, np.zeros(4)
    for n in range(1, 5):
        for columns in combinations(range(4), n):
            solution, *_ = np.linalg.lstsq(rows[:, columns], np.ones(len(rows)), rcond=None)
            error = float(((rows[:, columns] @ solution - 1) ** 2).sum())
            if solution.min() >= 0 and error < best - 1e-9:
                best, found = error, np.zeros(4)
                found[list(columns)] = solution
    return [round(TENTHS * value) for value in found]


def errors(measured: list[Measurement], cost: list[int]) -> Array:
    """Relative error of each call."""
    units = np.array([(1, m.work.runs, m.work.elements, m.work.macs) for m in measured])
    counts = np.array([m.instructions for m in measured])
    return np.asarray(units @ np.array(cost) / TENTHS / counts - 1)


def main() -> None:
    """Measure, fit, print, and write with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew npuc/arm/instructions.json")
    arguments = parser.parse_args()
    kernels = ArmKernels(build_kernels(CORE), CORE)
    measured: dict[str, list[Measurement]] = defaultdict(list)
    for case in cases():
        for found in measure(case, kernels):
            measured[found.work.variant].append(found)
    table = {variant: fit(found) for variant, found in sorted(measured.items())}
    for variant, cost in table.items():
        wrong = errors(measured[variant], cost)
        text = "  ".join(f"{value / TENTHS:8.1f}" for value in cost)
        print(f"{variant:32}{text}   {len(wrong):3} calls, {wrong.min():+.0%} to {wrong.max():+.0%}")
    if arguments.write:
        lines = ",\n".join(f"    {json.dumps(variant)}: {json.dumps(cost)}" for variant, cost in table.items())
        head = json.dumps({"core": CORE, "compiler": find_compiler(TARGETS[CORE]).version, "units": UNITS})
        Path(TABLE).write_text(f'{head[:-1]}, "tenths": {{\n{lines}\n}}}}\n', encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
