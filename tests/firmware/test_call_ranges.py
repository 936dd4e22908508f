"""What calls say that they read and write: exactly, for kernels that work element by element."""

import numpy as np

from npuc.arm.kernel_spec import SRAM
from npuc.arm.memory import View, row_major_strides
from npuc.arm.node import ArmNode, Bound, Stored, merge_runs
from npuc.ops.elementwise import Mul
from npuc.ops.normalize import BatchNorm
from npuc.ops.op import Op

WIDE, NARROW = (2, 3, 2, 3, 2, 3), (1, 3, 1, 3, 1, 3)


def bind(op: Op, *shapes: tuple[int, ...]) -> tuple[ArmNode, Bound]:
    """A node on float32 operands of these shapes, each in a storage of its own, and of the first shape as result."""
    views = [View(SRAM, 0, "float32", shape, row_major_strides(shape, 4)) for shape in (*shapes, shapes[0])]
    *inputs, output = (Stored(f"s{i}", view) for i, view in enumerate(views))
    node = ArmNode(op, tuple(inputs), output, scratch="scratch")
    return node, node.bind(lambda storage: 0x8000 if storage == "scratch" else 0x1000 * int(storage[1:]), 0)


def test_calls_of_many_axes_write_disjoint_parts_of_the_output() -> None:
    node, bound = bind(Mul(), WIDE, NARROW)
    assert len(bound.calls) == 4
    written = [run for call in bound.calls for run in call.writes]
    assert sum(n_bytes for _, n_bytes in written) == node.output.view.item_bytes * int(np.prod(WIDE))
    assert merge_runs(written) == ((0x2000, 4 * int(np.prod(WIDE))),)
    for call in bound.calls:
        assert all(0 <= start - 0x1000 < 4 * 27 for start, _ in call.reads if start >= 0x1000)
        assert sum(n_bytes for start, n_bytes in call.reads if start < 0x1000) == 4 * 54


def test_each_call_of_a_normalization_reads_what_one_before_has_written() -> None:
    _, bound = bind(BatchNorm(1e-5), (1, 8, 2, 3), *((8,),) * 4)
    known = set(merge_runs([(start, 32) for start in (0x1000, 0x2000, 0x3000, 0x4000)]) + ((0, 192),))
    for call in bound.calls:
        assert set(call.reads) <= known, call.call.kernel
        known |= set(call.writes)
    assert bound.calls[-1].writes == ((0x5000, 192),)
