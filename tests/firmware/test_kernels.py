"""The C kernels on this machine give the bytes of every operator's reference."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings

from isa.arithmetic import softmax_scale
from npuc.arm.kernel_call import RULES
from npuc.errors import InvalidGraph, UnsupportedOp, UsageError
from npuc.firmware.graph_runner import lower_to_kernels, run_graph, run_program
from npuc.firmware.host import host_kernels
from npuc.firmware.toolchain import ToolchainError
from npuc.graph.graph import Graph, Node
from npuc.graph.serialize import operator_kinds
from npuc.graph.types import TensorType
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.elementwise import QAdd
from npuc.ops.integer.pool import QMean
from npuc.ops.integer.rescale import Rescale
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Transpose
from npuc.ops.window import Window
from tests.firmware.operators import FAMILIES, GROUPS, Case, cases, check

N_CASES = int(os.environ.get("NPUC_KERNEL_CASES", "200"))
"""Of each family."""

HALF = Rescale(1 << 30, 31)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_operators_equal_the_reference(family: str) -> None:
    @settings(max_examples=N_CASES)
    @given(cases((family,)))
    def run(case: Case) -> None:
        check(case, host_kernels())

    run()


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("shuffle", [None, 1])
def test_every_combination_of_window_attributes(
    groups: tuple[int, int, int], shuffle: int | None, rng: np.random.Generator
) -> None:
    n_groups, depth, multiple = groups
    oc = n_groups * multiple
    attributes = ([(1, 1), (2, 3)], [(1, 1), (2, 1), (1, 2)], [(1, 1), (2, 3)], [(0, 0, 0, 0), (1, 3, 2, 1)])
    for kernel, dilation, stride, pads in itertools.product(*attributes):
        x = rng.integers(-128, 128, (2, n_groups * depth, 4, 6)).astype(np.int8)
        weights = rng.integers(-128, 128, (oc, depth, *kernel)).astype(np.int8)
        window = Window(kernel, stride, dilation, pads)
        op = QConv(window, n_groups, -3, 5, (1518500250,) * oc, (40,) * oc, True, (-128, 127))
        check(Case(op, [x, weights, np.zeros(oc, np.int32)], (1, 2), shuffle), host_kernels())


@pytest.mark.parametrize("scale", [0.004, 0.03, 0.2])
def test_thousands_of_softmax_rows(scale: float, rng: np.random.Generator) -> None:
    rows = rng.integers(-128, 128, (1, 10, 50, 60)).astype(np.int8)
    check(Case(QSoftmax(*softmax_scale(1.0, scale), 1), [rows], (), None), host_kernels())


def test_every_operator_of_integer_graphs_has_a_kernel() -> None:
    assert {kind for kind in operator_kinds().values() if not kind.__subclasses__()} <= set(RULES)


@pytest.mark.parametrize("double_round", [False, True])
@pytest.mark.parametrize("shift", [2, 30, 31, 32, 33, 38, 62])
def test_every_tie_of_both_signs_rounds_like_the_reference(shift: int, double_round: bool) -> None:
    biases = np.arange(-600, 600, dtype=np.int32)
    ends = np.array([-(1 << 31), 1 - (1 << 31), (1 << 31) - 1], np.int32)
    bias = np.concatenate([biases, ends, biases << 18])
    n = bias.size
    for multiplier in (1 << 30, (1 << 31) - 1, 0):
        op = QConv(Window((1, 1)), 1, 0, 3, (multiplier,) * n, (shift,) * n, double_round, (-128, 127))
        weights = np.zeros((n, 1, 1, 1), np.int8)
        check(Case(op, [np.zeros((1, 1, 1, 1), np.int8), weights, bias], (1, 2), None), host_kernels())


def test_accumulators_wrap_at_32_bits() -> None:
    x, weights = np.full((1, 70_000, 1, 1), 127, np.int8), np.full((2, 70_000, 1, 1), -128, np.int8)
    op = QConv(Window((1, 1)), 1, -128, 0, (1 << 30,) * 2, (50,) * 2, True, (-128, 127))
    bias = np.array([0, 1 - (1 << 31)], np.int32)
    check(Case(op, [x, weights, bias], (1, 2), None), host_kernels())


@pytest.mark.parametrize("value", [-128, 0, 127])
def test_longest_softmax_row_of_equal_values(value: int) -> None:
    row = np.full((1, 4095, 1, 1), value, np.int8)
    check(Case(QSoftmax((1 << 31) - 1, 26, 1), [row], (), None), host_kernels())


def test_every_pair_of_int8_values_adds_like_the_reference() -> None:
    values = np.arange(-128, 128, dtype=np.int8)
    first, second = values.reshape(1, 1, 256, 1), values.reshape(1, 1, 1, 256)
    for shift in (31, 32, 33):
        scale = Rescale(1 << 30, shift)
        for subtract in (False, True):
            op = QAdd(20, scale, Rescale(1518500250, 31), Rescale(1 << 30, 50), 3, -128, 5, (-128, 127), subtract)
            check(Case(op, [first, second], (), None), host_kernels())


def test_mean_of_a_large_plane() -> None:
    x = np.full((1, 1, 300, 250), -128, np.int8)
    check(Case(QMean(Rescale(1 << 30, 31), 127, 0, (-128, 127)), [x], (), None), host_kernels())


class Cube(Op):
    """An operator that has no kernel."""

    def infer(self, *inputs: TensorType) -> tuple[TensorType, ...]:
        return (inputs[0],)


def chain(*ops: Op) -> Graph:
    """A graph of operators one after the other on int8 [2,3]."""
    values, nodes = {"v0": TensorType("int8", (2, 3))}, []
    for i, op in enumerate(ops):
        (values[f"v{i + 1}"],) = op.infer(values[f"v{i}"])
        nodes.append(Node(f"node{i}", op, (f"v{i}",), (f"v{i + 1}",)))
    return Graph("chain", tuple(nodes), values, {}, ("v0",), (f"v{len(ops)}",))


def test_every_value_of_a_graph_can_be_kept() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    values = run_graph(chain(Transpose((1, 0)), Reshape((6,))), {"v0": x}, host_kernels(), ["v0", "v1"])
    assert values["v1"].tolist() == x.T.tolist()
    assert values["v2"].tolist() == [0, 3, 1, 4, 2, 5]
    assert values["v0"].tolist() == x.tolist()


def test_operators_without_a_kernel_are_all_reported() -> None:
    with pytest.raises(UnsupportedOp, match="2 of 2 nodes have no kernel\n  node0: Cube has no kernel\n  node1: Cube"):
        lower_to_kernels(chain(Cube(), Cube()))


@pytest.mark.parametrize(("feeds", "message"), [
    ({}, r"input v0 is nothing, need int8\[2,3\]"),
    ({"v0": np.zeros((3, 2), np.int8)}, r"input v0 is int8\[3,2\], need"),
    ({"v0": np.zeros((2, 3), np.float32)}, r"input v0 is float32\[2,3\]"),
])  # fmt: skip
def test_inputs_that_do_not_fit_are_named(feeds: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_graph(chain(Reshape((6,))), feeds, host_kernels())


def test_a_parameter_without_meaning_is_refused_and_named() -> None:
    x = np.zeros((1, 2, 1, 1), np.int8)
    case = Case(QAdd(20, Rescale(1 << 30, 63), HALF, HALF, 0, 0, 0, (-128, 127)), [x, x], (), None)
    with pytest.raises(InvalidGraph, match=r"kernel add refused the parameters of QAdd(.|\n)*node: node"):
        run_program(case.program(), {"x0": x, "x1": x}, host_kernels())


@pytest.mark.parametrize("call", [(99, 1, b""), (1, 3, b""), (1, 2, bytes(4))])
def test_a_record_that_the_library_does_not_know_is_refused(call: tuple[int, int, bytes]) -> None:
    memory = np.zeros(16, np.uint8)
    with pytest.raises(ToolchainError, match=f"no kernel {call[0]} of version {call[1]}"):
        host_kernels().run([call], memory, memory)
