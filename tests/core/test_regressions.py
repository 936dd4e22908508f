"""Networks that once were compiled wrongly, each reduced to what made the difference."""

import pytest

from isa.arithmetic import softmax_scale
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import QuantParams, TensorType
from npuc.ops.integer.elementwise import QAdd
from npuc.ops.integer.pool import QMaxPool, QMean
from npuc.ops.integer.rescale import addition_rescales
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.op import Op
from npuc.ops.structure import Pad, Slice, Transpose
from npuc.ops.window import Window
from tests.core.test_random_networks import check
from tests.verify.networks import HALF

FULL = (-128, 127)
ZERO = QuantParams(0.05, 0)


def chain(shape: tuple[int, ...], *rows: tuple[Op, str]) -> Graph:
    """Operators named a, b, c ... with the given inputs, one letter each; x is the graph's input."""
    values, nodes = {"x": TensorType("int8", shape, ZERO)}, []
    for name, (op, inputs) in zip("abcdef", rows, strict=False):
        kind = op.infer(*(values[source] for source in inputs))[0]
        values[name] = TensorType(kind.dtype, kind.shape, kind.quant or ZERO)
        nodes.append(Node(name, op, tuple(inputs), (name,), (name,)))
    read = {source for _, inputs in rows for source in inputs}
    outputs = tuple(node.name for node in nodes if node.name not in read)
    return verify(Graph("chain", tuple(nodes), values, {}, ("x",), outputs))


ADD = QAdd(20, *addition_rescales(0.05, 0.05, 0.05), 0, 0, 0, FULL)
MEAN = QMean(HALF, 0, 0, FULL)

NETWORKS = {
    "fill of one batch entry only": chain((2, 33, 7, 1), (Pad((0, 2, 0, 0), (0, 0, 2, 1), 0), "x"), (MEAN, "a")),
    "border of a row-major output": chain((1, 1, 8, 3), (Pad((0, 1, 2, 1), (0, 2, 0, 1), 0), "x")),
    "program without instructions": chain((1, 8, 1, 1), (Transpose((2, 3, 0, 1)), "x")),
    "stride that leaves rows over": chain((1, 3, 5, 5), (QMaxPool(Window((3, 3), (3, 3)), FULL), "x")),
    "broadcast of a ragged block": chain(
        (1, 17, 1, 3), (QMaxPool(Window((1, 2), (3, 2)), FULL), "x"), (ADD, "xa")
    ),
    "softmax of a blocked tensor": chain(
        (1, 17, 9, 1), (QMaxPool(Window((3, 1), (2, 2)), FULL), "x"), (QSoftmax(*softmax_scale(1.0, 0.05), 1), "a")
    ),
    "softmax over pixels of a blocked tensor": chain(
        (1, 17, 7, 9), (QMaxPool(Window((3, 1)), FULL), "x"), (QSoftmax(*softmax_scale(1.0, 0.05), 3), "a")
    ),
    "outputs that are views of one value": chain(
        (1, 4, 4, 4), (QMaxPool(Window((2, 2)), FULL), "x"), (Slice((0,) * 4, (1, 2, 3, 3), (1,) * 4), "a"),
        (Transpose((0, 1, 2, 3)), "a"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", ["edge-256", "edge-64", "u55-like"])
@pytest.mark.parametrize("name", NETWORKS)
def test_network_equals_its_reference(name: str, target: str) -> None:
    assert check(NETWORKS[name], target, None, 1) > 0
