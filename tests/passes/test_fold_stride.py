"""Folding a stride into channels keeps every byte, and declines where it cannot or need not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npuc.graph.graph import Graph, Node, evaluate, verify
from npuc.graph.types import Array, Layout, QuantParams, TensorType
from npuc.layout.assign import assign_layouts
from npuc.layout.trans_data import TransData
from npuc.ops.integer.conv import QConv
from npuc.ops.structure import Transpose
from npuc.ops.window import Window
from npuc.passes import HARDWARE_PASSES, run_passes
from npuc.passes.fold_stride_into_channels import fold_stride_into_channels
from npuc.passes.rule import Misses

OUTPUTS = 5


def stem(window: Window, shape: tuple[int, int, int, int], *, channels_last: bool = True, zero_point: int = 0) -> Graph:
    """A convolution of an image [n,h,w,c], or of one [n,c,h,w]."""
    n, h, w, c = shape
    rng = np.random.default_rng(0)
    weights = rng.integers(-127, 128, (OUTPUTS, c, *window.kernel)).astype(np.int8)
    constants: dict[str, Array] = {"w": weights, "b": rng.integers(-500, 500, OUTPUTS).astype(np.int32)}
    op = QConv(window, 1, -7, 3, (1 << 30,) * OUTPUTS, (38,) * OUTPUTS, True, (-128, 127), weight_zero_point=zero_point)
    image = TensorType("int8", (n, c, h, w), QuantParams(0.5, -7))
    values = {"x": image, "w": TensorType("int8", weights.shape), "b": TensorType("int32", (OUTPUTS,))}
    nodes = [Node("conv", op, ("x", "w", "b"), ("y",))]
    if channels_last:
        values |= {"x": TensorType("int8", shape, image.quant), "image": image}
        nodes = [
            Node("turn", Transpose((0, 3, 1, 2)), ("x",), ("image",)),
            Node("conv", op, ("image", "w", "b"), ("y",)),
        ]
    values["y"] = TensorType("int8", op.infer(image, values["w"], values["b"])[0].shape, QuantParams(0.25, 3))
    return verify(Graph("stem", tuple(nodes), values, constants, ("x",), ("y",)))


def strides(graph: Graph) -> list[tuple[int, int]]:
    return [node.op.window.stride for node in graph.nodes if isinstance(node.op, QConv)]


@given(
    kernel=st.tuples(st.integers(1, 5), st.integers(1, 7)), stride=st.tuples(st.integers(1, 3), st.integers(2, 4)),
    pads=st.tuples(*[st.integers(0, 4)] * 4), channels=st.integers(1, 4), groups=st.integers(2, 6),
    zero_point=st.integers(-3, 3), channels_last=st.booleans(),
)  # fmt: skip
def test_every_byte_stays(kernel: tuple[int, int], stride: tuple[int, int], pads: tuple[int, int, int, int],
                          channels: int, groups: int, zero_point: int, channels_last: bool) -> None:  # fmt: skip
    shape = (2, 7, groups * stride[1], channels)
    try:
        graph = stem(Window(kernel, stride, (1, 1), pads), shape, channels_last=channels_last, zero_point=zero_point)
    except ValueError:
        return  # the window does not fit the image
    x = np.random.default_rng(1).integers(-128, 128, graph.values["x"].shape).astype(np.int8)
    folded = run_passes(graph, HARDWARE_PASSES)
    assert np.array_equal(evaluate(folded, {"x": x})["y"], evaluate(graph, {"x": x})["y"])


def test_a_stem_is_folded() -> None:
    folded = run_passes(stem(Window((3, 3), (2, 2), (1, 1), (0, 0, 1, 1)), (1, 8, 8, 3)), HARDWARE_PASSES)
    (conv,) = (node for node in folded.nodes if isinstance(node.op, QConv))
    assert conv.op == QConv(
        Window((3, 2), (2, 1), (1, 1), (0, 0, 1, 1)), 1, -7, 3, (1 << 30,) * OUTPUTS, (38,) * OUTPUTS, True, (-128, 127)
    )
    assert folded.values[conv.inputs[0]] == TensorType("int8", (1, 6, 8, 4), QuantParams(0.5, -7))
    assert [node.op.kind for node in folded.nodes] == ["Reshape", "Transpose", "QConv"]


@pytest.mark.parametrize(
    ("window", "shape", "channels_last", "reason"),
    [
        (Window((3, 3), (2, 1)), (1, 8, 8, 3), True, "stride 1"),
        (Window((3, 3), (2, 2)), (1, 8, 9, 3), True, "on 9 pixels"),
        (Window((3, 3), (2, 2)), (1, 8, 8, 5), True, "of 5 channels"),
        (Window((3, 3), (2, 2), (1, 2)), (1, 8, 8, 3), True, "neighboring taps"),
        (Window((3, 3), (2, 2)), (1, 8, 8, 9), False, "of 9 channels"),
        (Window((3, 3), (2, 9)), (1, 8, 18, 1), False, "stride 9"),
        (Window((3, 1), (2, 4)), (1, 8, 8, 2), True, ""),
    ],
)
def test_what_is_left_alone(window: Window, shape: tuple[int, int, int, int], channels_last: bool, reason: str) -> None:
    graph = stem(window, shape, channels_last=channels_last)
    found: Misses = {}
    folded = fold_stride_into_channels(graph, found)
    misses = {name: miss.reason for name, miss in found.items()}
    if reason:
        assert reason in misses["conv"]
        assert strides(folded) == strides(graph)
    else:
        assert strides(folded) == [(2, 1)]


def test_an_image_stored_channel_by_channel_is_read_in_blocks_of_neighboring_pixels() -> None:
    folded = run_passes(
        stem(Window((3, 3), (2, 2), (1, 1), (0, 0, 1, 1)), (1, 8, 8, 3), channels_last=False), HARDWARE_PASSES
    )
    (conv,) = (node for node in folded.nodes if isinstance(node.op, QConv))
    placed = assign_layouts(folded, 16)
    assert placed.values[conv.inputs[0]].layout == Layout("x", 0, (0, 64, 8, 2), block=2)
    assert [node.outputs for node in placed.nodes if isinstance(node.op, TransData)] == [("y",)]


def test_the_arm_core_gets_a_copy_of_such_an_image() -> None:
    folded = run_passes(stem(Window((3, 3), (2, 2)), (1, 8, 8, 3), channels_last=False), HARDWARE_PASSES)
    placed = assign_layouts(folded, 16, {"conv"})
    (conv,) = (node for node in placed.nodes if isinstance(node.op, QConv))
    layout = placed.values[conv.inputs[0]].layout
    assert layout is not None
    assert not layout.block
