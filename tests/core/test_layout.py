"""Layouts of views against numpy strides; in a placed graph all values of a storage agree on its bytes."""

from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from npuc.errors import NpucError
from npuc.graph.graph import Graph, Node, verify
from npuc.graph.types import ITEM_BYTES, Array, Layout, QuantParams, TensorType
from npuc.layout.assign import assign_layouts
from npuc.layout.strides import dense, reshape_layout, slice_layout, transpose_layout
from npuc.layout.trans_data import TransData
from npuc.ops.integer.conv import QConv
from npuc.ops.integer.pool import QMaxPool
from npuc.ops.integer.softmax import QSoftmax
from npuc.ops.op import Op
from npuc.ops.structure import Reshape, Slice, Transpose
from npuc.ops.window import Window
from tests.core.random_networks import networks

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


def offsets(layout: Layout, type_: TensorType) -> Array:
    """Byte of the storage at which every element begins, in logical order."""
    index = np.indices(type_.shape)
    if not layout.block:
        return layout.offset_bytes + sum(
            (i * stride for i, stride in zip(index, layout.strides, strict=True)), np.zeros(type_.shape, np.int64)
        )
    n, c, y, x = index
    batch, block, row, pixel = layout.strides
    channels, width = type_.shape[1], type_.shape[3]
    tail = channels % layout.block
    in_tail = c >= channels - tail
    rows, pixels = np.where(in_tail, tail * width, row), np.where(in_tail, tail, pixel)
    place: Array = n * batch + c // layout.block * block + c % layout.block + y * rows + x * pixels
    return layout.offset_bytes + place


@given(shape=SHAPES, data=st.data())
def test_views_lie_where_numpy_finds_them(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = data.draw(st.permutations(range(len(shape))))
    type_ = TensorType("int8", shape)
    layout = dense("s", type_, tuple(axes))
    memory = np.arange(int(np.prod(shape)))
    array = as_strided(memory, shape, tuple(8 * stride for stride in layout.strides))
    op = data.draw(st.sampled_from(["reshape", "transpose", "slice"]))
    if op == "reshape":
        target = data.draw(st.permutations(shape)) if data.draw(st.booleans()) else [int(np.prod(shape))]
        view: Op = Reshape(tuple(target))
        derived = reshape_layout(layout, type_, tuple(target))
    elif op == "transpose":
        perm = tuple(data.draw(st.permutations(range(len(shape)))))
        view, derived = Transpose(perm), transpose_layout(layout, perm)
        assert derived is not None
    else:
        starts = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
        steps = tuple(data.draw(st.integers(1, 2)) for _ in shape)
        cut = Slice(starts, shape, steps)
        view, derived = cut, slice_layout(layout, type_, cut.ranges())
        assert derived is not None
    assume(derived is not None)
    assert derived is not None
    (result,) = view.infer(type_)
    assert np.array_equal(memory[offsets(derived, result)], view.reference(array)[0])


@given(graph=networks(), block=st.sampled_from([8, 16]))
def test_placed_graph_maps_elements_to_distinct_bytes_and_views_agree(graph: Graph, block: int) -> None:
    try:
        placed = assign_layouts(graph, block)
    except NpucError:
        assume(False)
    where = {}
    for name, type_ in placed.values.items():
        assert type_.layout is not None
        where[name] = offsets(type_.layout, type_)
        storage = placed.values[type_.layout.storage]
        assert len(np.unique(where[name])) == type_.n_elements
        assert where[name].min() >= 0
        assert where[name].max() + ITEM_BYTES[type_.dtype] <= storage.n_bytes
    for node in placed.nodes:
        if isinstance(node.op, Reshape | Transpose | Slice):
            source, result = node.inputs[0], node.outputs[0]
            assert np.array_equal(node.op.reference(where[source])[0], where[result]), node


def test_a_copy_takes_the_layout_that_its_only_reader_can_use() -> None:
    """Planes cut into pairs of pixels are no view of channels last; the convolutions around want channels last."""
    image = TensorType("int8", (1, 4, 8, 8), QuantParams(0.05, 0))
    flat, wide = (replace(image, shape=shape) for shape in ((128, 2), (1, 2, 4, 32)))
    factor = (1 << 30,) * 4, (38,) * 4
    conv = QConv(Window((1, 1)), 1, 0, 0, *factor, False, (-128, 127))
    nodes = (
        Node("before", conv, ("x", "w", "b"), ("v",)),
        Node("cut", Reshape((128, 2)), ("v",), ("r",)),
        Node("turn", Transpose((1, 0)), ("r",), ("t",)),
        Node("image", Reshape((1, 2, 4, 32)), ("t",), ("i",)),
        Node("pool", QMaxPool(Window((2, 2), (2, 2)), (-128, 127)), ("i",), ("y",)),
    )
    values = {"x": image, "v": image, "r": flat, "t": replace(flat, shape=(2, 128)), "i": wide}
    values |= {"w": TensorType("int8", (4, 4, 1, 1)), "b": TensorType("int32", (4,))}
    values["y"] = replace(wide, shape=(1, 2, 2, 16))
    constants: dict[str, Array] = {"w": np.ones((4, 4, 1, 1), np.int8), "b": np.zeros(4, np.int32)}
    graph = verify(Graph("pairs", nodes, values, constants, ("x",), ("y",)))
    placed = assign_layouts(graph, 16)
    assert sum(isinstance(node.op, TransData) for node in placed.nodes) <= 2


def test_a_node_that_reads_an_output_reads_it_as_it_was_computed() -> None:
    kind = TensorType("int8", (1, 3, 3, 5), QuantParams(1 / 256, -128))
    nodes = (Node("one", QSoftmax(1717986918, 22, 1), ("x",), ("y",)),
             Node("two", QSoftmax(1717986918, 22, 1), ("y",), ("z",)))  # fmt: skip
    graph = verify(Graph("chain", nodes, {"x": kind, "y": kind, "z": kind}, {}, ("x",), ("y", "z")))
    placed = assign_layouts(graph, 16)
    (second,) = (node for node in placed.nodes if node.name == "two")
    (first,) = (node for node in placed.nodes if node.name == "one")
    assert second.inputs == first.outputs != ("y",)
