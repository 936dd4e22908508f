"""Float operators: `infer` gives the type of `reference`, and the ONNX form means the same to onnxruntime."""

import numpy as np
import pytest

from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph, Node, type_of_array, verify
from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.elementwise import Add, Clip, Div, Mul, Relu, Sub
from npuc.ops.matmul import MatMul
from npuc.ops.normalize import BatchNorm, Softmax
from npuc.ops.op import Op
from npuc.ops.pool import AveragePool, MaxPool, SpatialMean
from npuc.ops.structure import Concat, Pad, Reshape, ResizeNearest, Slice, Transpose
from npuc.ops.unary import FUNCTIONS, Unary
from npuc.ops.window import Window

IMAGE = (2, 4, 7, 6)
SKEW = Window((3, 2), (2, 1), (1, 2), (1, 0, 2, 1))

Shapes = tuple[tuple[int, ...], ...]

ROWS: list[tuple[Op, Shapes]] = [
    (Conv(Window((3, 3))), (IMAGE, (5, 4, 3, 3), (5,))),
    (Conv(SKEW, groups=2), (IMAGE, (6, 2, 3, 2), (6,))),
    (Conv(Window((3, 3), pads=(1, 1, 1, 1)), groups=4), (IMAGE, (8, 1, 3, 3), (8,))),
    (MaxPool(SKEW), (IMAGE,)),
    (AveragePool(SKEW), (IMAGE,)),
    (AveragePool(SKEW, count_include_pad=True), (IMAGE,)),
    (SpatialMean(), (IMAGE,)),
    (BatchNorm(1e-3), (IMAGE, (4,), (4,), (4,), (4,))),
    (Softmax(1), (IMAGE,)),
    (MatMul(), ((2, 1, 3, 4), (5, 4, 2))),
    *((op, (IMAGE, (4, 1, 1))) for op in (Add(), Sub(), Mul(), Div())),
    (Relu(), (IMAGE,)),
    (Clip(-0.5, 0.5), (IMAGE,)),
    (Clip(-float("inf"), 0.5), (IMAGE,)),
    (Reshape((8, 42)), (IMAGE,)),
    (Transpose((0, 2, 3, 1)), (IMAGE,)),
    (Slice((0, 1, 6, 0), (2, 4, -1, 5), (1, 2, -3, 2)), (IMAGE,)),
    (Concat(2), (IMAGE, (2, 4, 1, 6))),
    (Pad((0, 1, 0, 2), (1, 0, 0, 3), 0.5), (IMAGE,)),
    (ResizeNearest((2, 3)), (IMAGE,)),
    *((Unary(name, tuple(value for _, value in row.attributes)), (IMAGE,)) for name, row in FUNCTIONS.items()),
]


def operand(shape: tuple[int, ...], rng: np.random.Generator, positive: bool) -> Array:
    """Values in -2..2, or in 0.5..2.5 for functions that need positive numbers."""
    return rng.uniform(0.5, 2.5, shape).astype(np.float32) if positive else rng.uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize(("op", "shapes"), ROWS, ids=lambda value: str(value)[:60] if isinstance(value, Op) else "")
def test_reference_has_the_inferred_type_and_equals_onnxruntime(
    op: Op, shapes: Shapes, rng: np.random.Generator
) -> None:
    of_positive = ("log", "sqrt", "reciprocal", "pow")
    positive = isinstance(op, BatchNorm | Div) or (isinstance(op, Unary) and op.function in of_positive)
    arrays = [operand(shape, rng, positive) for shape in shapes]
    inferred = op.infer(*map(type_of_array, arrays))
    (expected,) = op.reference(*arrays)
    assert inferred == (type_of_array(expected),)
    constants = {f"k{i}": array for i, array in enumerate(arrays[1:])}
    values = {"x": type_of_array(arrays[0]), "y": inferred[0], **{k: type_of_array(a) for k, a in constants.items()}}
    graph = verify(Graph("one", (Node("op", op, ("x", *constants), ("y",)),), values, constants, ("x",), ("y",)))
    got = FloatEvaluator(graph)({"x": arrays[0]})["y"]
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("op", "shapes"), [
    (Conv(Window((3, 3))), (IMAGE, (5, 3, 3, 3), (5,))),
    (Conv(Window((2, 3))), (IMAGE, (5, 4, 3, 3), (5,))),
    (Conv(Window((3, 3)), groups=3), (IMAGE, (6, 2, 3, 3), (6,))),
    (Conv(Window((9, 9))), (IMAGE, (5, 4, 9, 9), (5,))),
    (MaxPool(Window((2, 2), pads=(2, 0, 0, 0))), (IMAGE,)),
    (SpatialMean(), ((2, 3),)),
    (MatMul(), ((2, 3), (2, 3))),
    (Add(), ((2, 3), (2, 4))),
    (Softmax(4), (IMAGE,)),
], ids=str)  # fmt: skip
def test_operands_that_do_not_fit_are_refused(op: Op, shapes: Shapes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        op.infer(*(type_of_array(np.zeros(shape, np.float32)) for shape in shapes))


def test_integers_are_divided_toward_zero() -> None:
    (quotient,) = Div().reference(np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2]))
    assert quotient.tolist() == [3, -3, -3, 3]
