"""Public bug reports about importing and rewriting, at the level of float values."""

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from npuc.errors import ImportFailure, UnsupportedOp, UsageError
from npuc.graph.graph import evaluate
from npuc.importer.onnx import import_onnx
from npuc.passes import GRAPH_PASSES, run_passes
from tests.cases.float_values import run
from tests.onnx_models import arange, floats, model, node

FLOAT = onnx.TensorProto.FLOAT
POINT = np.full((1, 1, 1, 1), 2, np.float32)


def test_c06_convolution_with_two_readers_keeps_its_output() -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y1"]), node("Neg", ["c"], ["y2"])]
    source = model(nodes, {"x": [1, 1, 1, 4]}, ["y1", "y2", "c"], {"w": POINT / 2})
    y1, y2, c = run(source, [-3, -1, 1, 3])
    assert y1.reshape(-1).tolist() == [0, 0, 1, 3]
    assert y2.reshape(-1).tolist() == [3, 1, -1, -3]
    assert c.reshape(-1).tolist() == [-3, -1, 1, 3]


def test_c09_shared_initializers_and_a_value_with_a_likely_name() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((10, 10, 2, 2)).astype(np.float32)
    nodes = [node("Conv", ["x", "w", "b"], ["b0"]), node("Add", ["b0", "c"], ["b1"]),
             node("Conv", ["b1", "w", "b"], ["y"])]
    constants = {"w": weights, "b": arange(10), "c": arange(10, 1, 1)}
    source = model(nodes, {"x": [1, 10, 4, 4]}, ["y"], constants)
    run(source, rng.standard_normal((1, 10, 4, 4)))
    graph = run_passes(import_onnx(source), GRAPH_PASSES)
    assert [len(graph.nodes), graph.inputs, graph.outputs] == [2, ("x",), ("y",)]


def test_c14_batch_norms_behind_a_shared_weight_fold_apart() -> None:
    constants = {"w": POINT}
    nodes = []
    for i, parameters in enumerate([(1, 0, 0, 1), (3, 1, 2, 4)], 1):
        names = [f"{kind}{i}" for kind in "gbmv"]
        constants |= {name: np.array([value], np.float32) for name, value in zip(names, parameters, strict=True)}
        nodes += [node("Conv", ["x", "w"], [f"c{i}"]),
                  node("BatchNormalization", [f"c{i}", *names], [f"y{i}"], epsilon=0.0)]
    y1, y2 = run(model(nodes, {"x": [1, 1, 1, 2]}, ["y1", "y2"], constants), [1, 2])
    assert y1.reshape(-1).tolist() == [2, 4]
    assert y2.reshape(-1).tolist() == [1, 4]


def test_c14_batch_norm_behind_a_convolution_with_another_reader() -> None:
    constants = {"w": POINT, "g": floats(3), "b": floats(1), "m": floats(2), "v": floats(4)}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"]),
             node("BatchNormalization", ["c", "g", "b", "m", "v"], ["y"], epsilon=0.0)]
    y, r = run(model(nodes, {"x": [1, 1, 1, 2]}, ["y", "r"], constants), [-1, 2])
    assert y.reshape(-1).tolist() == [-5, 4]
    assert r.reshape(-1).tolist() == [0, 4]


def branch(name: str, value: float) -> onnx.GraphProto:
    outputs = [helper.make_tensor_value_info(f"{name}_out", FLOAT, [1])]
    constant = helper.make_tensor(f"{name}_value", FLOAT, [1], [value])
    return helper.make_graph([node("Identity", [f"{name}_value"], [f"{name}_out"])], name, [], outputs, [constant])


def test_c39_if_with_a_constant_condition() -> None:
    nodes = [node("If", ["cond"], ["r"], then_branch=branch("yes", 1), else_branch=branch("no", 0)),
             node("Add", ["x", "r"], ["y"])]
    assert run(model(nodes, {"x": [1]}, ["y"], {"cond": np.array(True)}), [5])[0].tolist() == [6]


def test_c39_if_with_a_computed_condition_is_refused() -> None:
    nodes = [node("If", ["x"], ["y"], "choice", then_branch=branch("yes", 1), else_branch=branch("no", 0))]
    with pytest.raises(UnsupportedOp, match=r"choice \(If\): condition depends on the inputs"):
        import_onnx(model(nodes, {"x": [1]}, ["y"]))


def test_c39_loop_of_three_trips_without_condition() -> None:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["t"]), node("Identity", ["go"], ["go_on"])], "body",
        [info("i", onnx.TensorProto.INT64, []), info("go", onnx.TensorProto.BOOL, []), info("s", FLOAT, [2])],
        [info("go_on", onnx.TensorProto.BOOL, []), info("t", FLOAT, [2])],
    )  # fmt: skip
    nodes = [node("Loop", ["trips", "", "zero"], ["y"], body=body)]
    constants: dict[str, Any] = {"trips": np.array(3, np.int64), "zero": np.zeros(2, np.float32)}
    assert run(model(nodes, {"x": [2]}, ["y"], constants), [1, 2])[0].tolist() == [3, 6]


def test_c40_outputs_that_are_one_value_keep_their_names_and_order() -> None:
    nodes = [node("Relu", ["x"], ["t"]), node("Identity", ["t"], ["o1"]), node("Identity", ["t"], ["o2"])]
    source = model(nodes, {"x": [2]}, ["o1", "o2", "t"])
    assert import_onnx(source).outputs == ("o1", "o2", "t")
    assert [y.tolist() for y in run(source, [-1, 2])] == [[0, 2]] * 3


def test_c40_initializer_and_input_as_outputs_and_an_output_listed_twice() -> None:
    source = model([node("Relu", ["x"], ["y"]), node("Identity", ["x"], ["z"])], {"x": [2]}, ["k", "y", "y", "z"],
                   {"k": [7.0]})
    graph = run_passes(import_onnx(source), GRAPH_PASSES)
    assert graph.outputs == ("k", "y", "y", "z")
    got = evaluate(graph, {"x": floats(-1, 2)})
    assert [got[name].tolist() for name in ("k", "y", "z")] == [[7], [0, 2], [-1, 2]]


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 8), (8, 13)])
def test_c42_initializer_that_is_also_an_input_is_constant(
    ir_version: int, opset: int, caplog: pytest.LogCaptureFixture
) -> None:
    inputs = {"x": [1, 1, 1, 2], "w": [1, 1, 1, 1]}
    source = model([node("Conv", ["x", "w"], ["y"])], inputs, ["y"], {"w": POINT}, opset)
    source.ir_version = ir_version
    with caplog.at_level(logging.WARNING):
        graph = import_onnx(source)
    assert graph.inputs == ("x",)
    assert bool(caplog.records) == (ir_version >= 4)
    assert run(source, [1, 2])[0].reshape(-1).tolist() == [2, 4]


def test_c43_empty_optional_inputs() -> None:
    clip = model([node("Clip", ["x", "", "max"], ["y"])], {"x": [4]}, ["y"], {"max": np.array(1, np.float32)})
    assert run(clip, [-5, 0, 1, 9])[0].tolist() == [-5, 0, 1, 1]
    sizes = model([node("Resize", ["x", "", "", "sizes"], ["y"])], {"x": [1, 1, 1, 2]}, ["y"], {"sizes": [1, 1, 2, 4]})
    assert run(sizes, [1, 2])[0].reshape(-1).tolist() == [1, 1, 2, 2, 1, 1, 2, 2]


def symbolic(*shape: int | str | None) -> onnx.ModelProto:
    return model([node("Conv", ["x", "w"], ["y"])], {"x": shape}, ["y"], {"w": np.ones((4, 3, 1, 1), np.float32)})


@pytest.mark.parametrize(("shape", "option"), [
    (("N", 3, 8, 8), "--shape x=1,3,8,8"),
    ((-1, 3, 8, 8), "--shape x=1,3,8,8"),
    ((None, 3, "H", "W"), "--shape x=1,3,224,224"),
])  # fmt: skip
def test_c45_symbolic_shape_is_refused_with_the_option_that_helps(shape: tuple[int | str], option: str) -> None:
    with pytest.raises(ImportFailure) as refusal:
        import_onnx(symbolic(*shape))
    assert option in refusal.value.hint
    size = tuple(int(text) for text in option.partition("=")[2].split(","))
    assert import_onnx(symbolic(*shape), {"x": size}).type_of("y").shape == (1, 4, *size[2:])


def test_c45_missing_shape_and_contradictions() -> None:
    bare = symbolic("N", 3, 8, 8)
    bare.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ImportFailure, match="has no shape"):
        import_onnx(bare)
    assert import_onnx(bare, {"x": (1, 3, 8, 8)}).type_of("y").shape == (1, 4, 8, 8)
    for shapes in ({"z": (1,)}, {"x": (1, 5, 8, 8)}, {"x": (1, 3)}, {"x": (0, 3, 8, 8)}):
        with pytest.raises(UsageError):
            import_onnx(symbolic("N", 3, 8, 8), shapes)


def external_model(folder: Path) -> Path:
    weights = np.full((4, 1, 3, 3), 0.5, np.float32)
    path = folder / "model.onnx"
    source = model([node("Conv", ["x", "w"], ["y"])], {"x": [1, 1, 5, 5]}, ["y"], {"w": weights})
    onnx.save_model(source, str(path), save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def test_c46_external_data_is_found_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = external_model(tmp_path)
    monkeypatch.chdir(os.path.sep)
    y = evaluate(import_onnx(path), {"x": np.ones((1, 1, 5, 5), np.float32)})["y"]
    assert np.all(y == 4.5)


@pytest.mark.parametrize(("damage", "message"), [
    ("missing", "is missing"), ("short", "needs bytes"), ("../w.bin", "outside"), ("/etc/hostname", "outside"),
    ("link", "outside"),
])  # fmt: skip
def test_c46_external_data_that_cannot_be_used(tmp_path: Path, damage: str, message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = external_model(folder)
    data = folder / "w.bin"
    (tmp_path / "w.bin").write_bytes(data.read_bytes())
    if damage == "missing":
        data.unlink()
    elif damage == "short":
        data.write_bytes(data.read_bytes()[:-1])
    elif damage == "link":
        data.unlink()
        data.symlink_to(tmp_path / "w.bin")
    else:
        source = onnx.load(str(path), load_external_data=False)
        source.graph.initializer[0].external_data[0].value = damage
        path.write_bytes(source.SerializeToString())
    with pytest.raises(ImportFailure, match=message):
        import_onnx(path)
