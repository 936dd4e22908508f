"""Running `npuc` in this process, in a folder of its own, and small inputs for it."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuc.cli import main
from tests.shared_data import ROOT


@dataclass(frozen=True)
class Result:
    """What one command left behind."""

    status: int
    out: str
    err: str


Npuc = Callable[..., Result]

DIGITS = ROOT / "examples" / "digits"


@pytest.fixture
def npuc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Npuc:
    """`npuc("compile", "m.onnx", ...)` runs the command with tmp_path as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NPUC_DEBUG", raising=False)

    def invoke(*arguments: str | Path) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(stop.value.code, int)
        return Result(stop.value.code, captured.out, captured.err)

    return invoke


@pytest.fixture
def tiny(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A float model x[1,3,8,8] -> Conv 3x3 -> Relu -> y[1,4,8,8] with calibration data x.npy beside it."""
    path = tmp_path / "tiny.onnx"
    path.write_bytes(conv_model((1, 3, 8, 8), rng))
    np.save(tmp_path / "x.npy", rng.standard_normal((6, 3, 8, 8), np.float32))
    return path


def conv_model(shape: tuple[int | str, ...], rng: np.random.Generator) -> bytes:
    """A Conv and a Relu on an input of `shape`, with three channels."""
    weights = rng.standard_normal((4, 3, 3, 3), np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="/conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], name="/relu"),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return model_bytes(graph)


def model_bytes(graph: onnx.GraphProto) -> bytes:
    """A model of opset 13 around a graph."""
    buffer = io.BytesIO()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), buffer)
    return buffer.getvalue()
