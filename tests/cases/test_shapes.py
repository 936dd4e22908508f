"""Public bug reports about shapes, attributes and layout, at the level of float values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from npuc.errors import UnsupportedOp
from npuc.graph.types import Array
from npuc.importer.onnx import import_onnx
from npuc.passes import GRAPH_PASSES, run_passes
from tests.cases.float_values import run
from tests.onnx_models import arange, floats, model, node

Constants = Mapping[str, Array | Sequence[Any]]


def run_one(op: str, x: Array, extra: Constants | None = None, opset: int = 13, names: Sequence[str] | None = None,
            **attributes: Any) -> Array:
    """Output of a single node on x; `names` gives the inputs where some are empty."""
    inputs = names or ["x", *(extra or {})]
    return run(model([node(op, inputs, ["y"], **attributes)], {"x": x.shape}, ["y"], extra, opset), x)[0]


def check(got: Array, shape: Sequence[int], values: Sequence[float], tolerance: float = 1e-4) -> None:
    """Compare shape, and values in row-major order."""
    assert got.shape == tuple(shape)
    np.testing.assert_allclose(got.reshape(-1), values, atol=tolerance)


@pytest.mark.parametrize(("mode", "values"), [("SAME_LOWER", [0, 1, 3, 3, 8, 12, 9, 20, 24]),
                                              ("SAME_UPPER", [8, 12, 7, 20, 24, 13, 13, 15, 8])])
def test_c16_same_padding_of_an_even_kernel(mode: str, values: list[float]) -> None:
    ones = np.ones((1, 1, 2, 2), np.float32)
    check(run_one("Conv", arange(1, 1, 3, 3), {"w": ones}, auto_pad=mode), (1, 1, 3, 3), values)


def test_c16_same_lower_with_stride() -> None:
    ones = np.ones((1, 1, 3, 3), np.float32)
    y = run_one("Conv", arange(1, 1, 4, 4), {"w": ones}, auto_pad="SAME_LOWER", strides=[2, 2])
    check(y, (1, 1, 2, 2), [10, 24, 51, 90])


@pytest.mark.parametrize("opset", [11, 19, 20])
def test_c18_average_pool_counts_pads(opset: int) -> None:
    y = run_one("AveragePool", arange(1, 1, 6, 2), opset=opset, kernel_shape=[5, 1], auto_pad="SAME_LOWER",
                count_include_pad=1)
    check(y, (1, 1, 6, 2), [1.2, 1.8, 2.4, 3.2, 4, 5, 6, 7, 5.6, 6.4, 4.8, 5.4])


@pytest.mark.parametrize(("include", "first"), [(1, 0.8889), (0, 2.0)])
def test_c18_first_average_with_and_without_pads(include: int, first: float) -> None:
    y = run_one("AveragePool", arange(1, 1, 3, 3), kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=include)
    assert y[0, 0, 0, 0] == pytest.approx(first, abs=1e-4)


def test_c20_ceil_mode_drops_windows_that_start_in_the_padding() -> None:
    y = run_one("MaxPool", arange(1, 1, 6, 5), kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1)
    check(y, (1, 1, 3, 2), [6, 9, 21, 24, 26, 29])
    check(run_one("MaxPool", arange(1, 1, 2, 2), kernel_shape=[1, 1], strides=[2, 2], ceil_mode=1), (1, 1, 1, 1), [0])


@pytest.mark.parametrize(("mode", "rounding", "values"), [
    ("asymmetric", "floor", [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]),
    ("asymmetric", None, [0, 0, 1, 1, 2, 2, 2, 3, 3, 3]),
    ("half_pixel", None, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]),
    ("align_corners", None, [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]),
])  # fmt: skip
def test_c22_resize_by_a_fraction(mode: str, rounding: str | None, values: list[float]) -> None:
    attributes: dict[str, Any] = {"nearest_mode": rounding} if rounding else {}
    y = run_one("Resize", arange(1, 1, 1, 4), {"scales": [1.0, 1.0, 1.0, 2.5]}, names=["x", "", "scales"],
                coordinate_transformation_mode=mode, mode="nearest", **attributes)
    check(y, (1, 1, 1, 10), values)


def test_c22_resize_rows_and_columns_and_upsample() -> None:
    y = run_one("Resize", arange(1, 1, 4, 4), {"scales": [1.0, 1.0, 1.5, 1.5]}, names=["x", "", "scales"],
                coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    assert y[0, 0, 0].tolist() == [0, 0, 1, 2, 2, 3]
    doubled = run_one("Upsample", arange(1, 1, 1, 2), {"scales": [1.0, 1.0, 2.0, 2.0]}, opset=9)
    check(doubled, (1, 1, 2, 4), [0, 0, 1, 1, 0, 0, 1, 1])


@pytest.mark.parametrize(("bounds", "values"), [((-1, -11, -1), range(9, -1, -1)), ((9, -100, -3), (9, 6, 3, 0))])
def test_c24_slice_backwards(bounds: tuple[int, int, int], values: Sequence[int]) -> None:
    start, stop, step = bounds
    extra = {"starts": [start], "ends": [stop], "axes": [0], "steps": [step]}
    check(run_one("Slice", arange(10), extra), (len(values),), list(values))


def test_c24_slice_backwards_on_channels_and_columns() -> None:
    x = arange(1, 20, 4, 6)
    y = run_one("Slice", x, {"starts": [19, 5], "ends": [-100, 0], "axes": [1, 3], "steps": [-3, -2]})
    assert np.array_equal(y, x[:, 19::-3, :, 5:0:-2])


def test_c24_empty_slice_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="empty tensor"):
        run_one("Slice", arange(10), {"starts": [0], "ends": [5], "axes": [0], "steps": [-1]})


def test_c25_uneven_split() -> None:
    nodes = [node("Split", ["x"], ["a", "b", "c"], num_outputs=3)]
    parts = run(model(nodes, {"x": [10]}, ["a", "b", "c"], opset=18), arange(10))
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    nodes = [node("Split", ["x", ""], ["a", "b"], axis=1)]
    halves = run(model(nodes, {"x": [1, 4]}, ["a", "b"]), arange(1, 4))
    assert [half.tolist() for half in halves] == [[[0, 1]], [[2, 3]]]
    nodes = [node("Split", ["x", "s"], ["a", ""], axis=1)]
    assert run(model(nodes, {"x": [1, 7, 1, 1]}, ["a"], {"s": [3, 4]}), arange(1, 7, 1, 1))[0].shape == (1, 3, 1, 1)


@pytest.mark.parametrize(("count", "axis"), [(130, -1), (64, 1), (63, 1)])
def test_c26_concat_of_many_inputs_keeps_their_order(count: int, axis: int) -> None:
    shapes: list[list[int]] = [[1, 2, 1, 1 + i % 3] if axis == -1 else [1, 1 + i % 3, 1, 2] for i in range(count)]
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    arrays = [np.full(shape, i, np.float32) for i, shape in enumerate(shapes)]
    y = run(model([node("Concat", list(inputs), ["y"], axis=axis)], inputs, ["y"]), *arrays)[0]
    assert np.array_equal(y, np.concatenate(arrays, axis=axis))


def test_c26_concat_of_one_tensor_a_hundred_times() -> None:
    y = run(model([node("Concat", ["x"] * 100, ["y"], axis=0)], {"x": [1, 2]}, ["y"]), [3, 4])[0]
    assert np.array_equal(y, np.tile([[3, 4]], (100, 1)))


def test_c28_gather_with_negative_and_wrong_indices() -> None:
    data = arange(3, 4) + 1
    assert run_one("Gather", data, {"i": [0, -1]}).tolist() == [[1, 2, 3, 4], [9, 10, 11, 12]]
    assert run_one("Gather", data, {"i": np.array(1, np.int64)}, axis=1).tolist() == [2, 6, 10]
    with pytest.raises(UnsupportedOp, match="index 5 on axis 0, allowed are -5 to 4"):
        run_one("Gather", arange(5), {"i": [5]})


def test_c29_pad_modes() -> None:
    assert run_one("Pad", arange(3, 4), {"p": [1, 0, 0, 0]}, mode="reflect")[0].tolist() == [4, 5, 6, 7]
    y = run_one("Pad", np.array([[1, 1.2]], np.float32), {"p": [0, 2, 0, 0]}, mode="reflect")
    np.testing.assert_allclose(y, [[1, 1.2, 1, 1.2]])
    y = run_one("Pad", arange(1, 1, 4, 4), {"p": [0, 0, -1, 1, 0, 0, -1, 0]})
    check(y, (1, 1, 2, 5), [0, 4, 5, 6, 7, 0, 8, 9, 10, 11])
    extra = {"p": [1, 2], "axes": [-1]}
    y = run_one("Pad", arange(1, 4), extra, opset=18, names=["x", "p", "", "axes"], mode="reflect")
    assert y.tolist() == [[1, 0, 1, 2, 3, 2, 1]]


def test_c30_softmax_changed_its_meaning_in_opset_13() -> None:
    x = arange(2, 3, 4) / 10
    old, new = run_one("Softmax", x, opset=11), run_one("Softmax", x, opset=13)
    np.testing.assert_allclose(old.sum(axis=(1, 2)), 1, atol=1e-6)
    np.testing.assert_allclose(new.sum(axis=2), 1, atol=1e-6)
    assert (old[0, 0, 0], new[0, 0, 0]) == pytest.approx((0.0453, 0.2138), abs=1e-4)
    np.testing.assert_allclose(run_one("Softmax", arange(1, 5, 2, 2), axis=1).sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("as_nodes", [False, True])
def test_c33_gelu_written_with_erf(swapped: bool, as_nodes: bool) -> None:
    constants = {name: np.array(value, np.float32) for name, value in (("root", 2**0.5), ("one", 1), ("half", 0.5))}
    step = -1 if swapped else 1
    nodes = [node("Div", ["x", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"][::step], ["a"]),
             node("Mul", ["x", "a"][::step], ["m"]), node("Mul", ["m", "half"][::step], ["y"])]
    if as_nodes:
        nodes = [node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))
                 for name, value in constants.items()] + nodes
    given = {} if as_nodes else constants
    y, e = run(model(nodes, {"x": [4]}, ["y", "e"], given), [-3, -1, 1, 3])
    check(y, (4,), [-0.0040, -0.1587, 0.8413, 2.9960])
    assert e.shape == (4,)


@pytest.mark.parametrize("channels", [5, 16, 17, 33])
@pytest.mark.parametrize("flatten", ["Flatten", "Reshape"])
def test_c34_dense_layer_on_a_flattened_image(channels: int, flatten: str) -> None:
    w = arange(channels, 3, 1, 1)
    eye = np.eye(channels * 4, dtype=np.float32)[:, :3]
    shape = ["shape"] if flatten == "Reshape" else []
    nodes = [node("Conv", ["x", "w"], ["c"]), node(flatten, ["c", *shape], ["f"]), node("Gemm", ["f", "eye"], ["y"])]
    constants: dict[str, Any] = {"w": w, "eye": eye, "shape": [1, -1]}
    y, flat = run(model(nodes, {"x": [1, 3, 2, 2]}, ["y", "f"], constants), arange(1, 3, 2, 2))
    assert y.tolist() == [[20, 23, 26]]
    assert flat[0, :8].tolist() == [20, 23, 26, 29, 56, 68, 80, 92]


@pytest.mark.parametrize(("shape", "values", "n_nodes"), [([1, -1, 2], list(range(12)), 1),
                                                         ([1, 4, 3], [0, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 11], 3)])
def test_c35_transpose_reshape_transpose(shape: list[int], values: list[int], n_nodes: int) -> None:
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), node("Reshape", ["t", "s"], ["r"]),
             node("Transpose", ["r"], ["y"], perm=[0, 2, 1])]
    source = model(nodes, {"x": [1, 2, 2, 3]}, ["y"], {"s": shape})
    assert run(source, arange(1, 2, 2, 3))[0].reshape(-1).tolist() == values
    assert len(run_passes(import_onnx(source), GRAPH_PASSES).nodes) == n_nodes


def test_c36_depthwise_multiplier_and_grouped_convolution() -> None:
    x, w = arange(1, 3, 2, 2) + 1, arange(6, 1, 1, 1) + 1
    expected = [1, 2, 3, 4, 2, 4, 6, 8, 15, 18, 21, 24, 20, 24, 28, 32, 45, 50, 55, 60, 54, 60, 66, 72]
    check(run_one("Conv", x, {"w": w}, group=3), (1, 6, 2, 2), expected)
    w = np.repeat(floats(1, 10, 100, 1000), 3).reshape(4, 3, 1, 1)
    check(run_one("Conv", arange(1, 6, 1, 1) + 1, {"w": w}, group=2), (1, 4, 1, 1), [6, 60, 1500, 15000])


def test_c37_causal_dilated_convolution_keeps_rank_3() -> None:
    w = floats(1, 10, 100).reshape(1, 1, 3)
    y = run_one("Conv", arange(1, 1, 6) + 1, {"w": w}, dilations=[2], pads=[4, 0])
    check(y, (1, 1, 6), [100, 200, 310, 420, 531, 642])


def test_c47_reshape_copies_dimensions_and_scalars_multiply() -> None:
    assert run_one("Reshape", arange(2, 3), {"s": [0, 3]}).shape == (2, 3)
    nodes = [node("Reshape", ["c", "s"], ["r"]), node("Add", ["x", "r"], ["y"])]
    assert run(model(nodes, {"x": [2, 3]}, ["y"], {"c": arange(2, 3), "s": [0, 3]}), arange(2, 3))[0][1, 2] == 10
    nodes = [node("Mul", ["x", "three"], ["y"])]
    y = run(model(nodes, {"x": []}, ["y"], {"three": np.array(3, np.float32)}), 2)[0]
    assert y.shape == ()
    assert y == 6


def test_c50_views_of_one_value_and_a_value_read_twice() -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Reshape", ["r", "s"], ["v"]), node("Neg", ["v"], ["n"]),
             node("Reshape", ["n", "t"], ["w"]), node("Add", ["w", "r"], ["y1"]), node("Mul", ["r", "r"], ["y2"]),
             node("Sub", ["r", "r"], ["y3"])]
    source = model(nodes, {"x": [1, 2, 1, 2]}, ["y1", "y2", "y3"], {"s": [4], "t": [1, 2, 1, 2]})
    y1, y2, y3 = run(source, [-1, 2, 3, -4])
    assert not y1.any()
    assert not y3.any()
    assert y2.reshape(-1).tolist() == [0, 4, 9, 0]


def test_c52_a_batch_equals_its_samples(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 16, 5, 5)).astype(np.float32)
    constants = {"w": rng.standard_normal((8, 16, 3, 3)).astype(np.float32),
                 "g": rng.standard_normal((8, 4)).astype(np.float32), "b": arange(1, 4)}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("GlobalAveragePool", ["c"], ["p"]),
             node("Flatten", ["p"], ["f"]), node("Gemm", ["f", "g", "b"], ["y"])]
    whole = run(model(nodes, {"x": [3, 16, 5, 5]}, ["y"], constants), x)[0]
    single = model(nodes, {"x": [1, 16, 5, 5]}, ["y"], constants)
    np.testing.assert_allclose(whole, np.concatenate([run(single, sample)[0] for sample in x]), rtol=1e-5, atol=1e-5)


def test_c52_rank_5_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="rank 5"):
        run_one("GlobalAveragePool", arange(1, 1, 2, 2, 2))
