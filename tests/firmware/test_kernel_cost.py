"""The table of instructions: complete, and what a core executes."""

import json
from itertools import islice

import numpy as np

from benchmarks.kernel_instructions import cases, measure
from isa.target_file import load_target
from npuc.arm.call import KernelCall
from npuc.arm.cost import TABLE, TENTHS, arm_cycles, instruction_tenths
from npuc.arm.kernel_function import FUNCTIONS
from npuc.arm.kernel_spec import KERNELS
from npuc.arm.work import work
from npuc.firmware.toolchain import TARGETS, ToolchainError, build_kernels, find_compiler
from npuc.graph.types import Array
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import Lookup
from npuc.ops.window import Window
from simulator.arm_kernels import ArmKernels
from tests.firmware.operators import Case
from tests.shared_data import leave_out

CORE = "cortex-m33"
STEP = 7
"""Of all the calls that the benchmark measures, the test measures every seventh."""


def conv_call(groups: int, depth: int, oc: int, size: int) -> KernelCall:
    operands: list[Array] = [
        np.zeros((1, groups * depth, size, size), np.int8), np.zeros((oc, depth, 3, 3), np.int8), np.zeros(oc, np.int32)
    ]  # fmt: skip
    op = QConv(Window((3, 3)), groups, 0, 0, (1 << 30,) * oc, (31,) * oc, True, (-128, 127))
    ((_, call),) = Case(op, operands, (1, 2), None).program().calls
    return call


def test_every_kernel_and_every_function_has_been_measured() -> None:
    variants = set(json.loads(TABLE.read_text())["tenths"])
    by_function = {"squash": "squash", "index_arithmetic": "index", "float_unary": "unary", "float_binary": "binary",
                   "float_pool": "pool"}  # fmt: skip
    wanted = {spec.name for spec in KERNELS if spec.name not in by_function}
    wanted |= {f"{kernel}.{name}" for kernel, family in by_function.items() for name in FUNCTIONS[family]}
    assert wanted <= variants


def test_work_of_a_convolution() -> None:
    found = work("conv2d", conv_call(1, 16, 8, 6).parameters)
    assert (found.variant, found.runs, found.elements, found.macs) == ("conv2d", 8 * 16 * 3, 8 * 16, 8 * 16 * 16 * 9)
    found = work("conv2d", conv_call(40, 1, 40, 5).parameters)
    assert (found.variant, found.runs, found.macs) == ("conv2d.depthwise", 9 * 9 * 2, 40 * 9 * 9)


def test_cycles_are_on_the_clock_of_the_npu() -> None:
    """1.5 cycles for each instruction, on a core of half the clock."""
    target, call = load_target("edge-256"), conv_call(1, 16, 8, 6)
    tenths = instruction_tenths(work("conv2d", call.parameters))
    assert target.board.npu_hz == 2 * target.board.arm_hz
    assert arm_cycles(call, target) == -(-3 * tenths // TENTHS)


def test_dense_operands_are_one_run() -> None:
    case = Case(Lookup(tuple(range(-128, 128))), [np.zeros((2, 3), np.int8)], (), None)
    ((_, call),) = case.program().calls
    assert work(call.kernel, call.parameters).runs == 1


def test_the_table_is_what_a_core_executes() -> None:
    try:
        find_compiler(TARGETS[CORE])
    except ToolchainError as failure:
        leave_out(failure.message)
    kernels = ArmKernels(build_kernels(CORE), CORE)
    wrong = {}
    for case in islice(cases(), 0, None, STEP):
        for found in measure(case, kernels):
            ratio = instruction_tenths(found.work) / TENTHS / found.instructions
            if not 0.75 <= ratio <= 1.33:
                wrong[found.work.variant] = round(ratio, 2)
    assert wrong == {}, "run python -m benchmarks.kernel_instructions --write"
