"""Bad input: one clear line, a hint, the right status, never a traceback, never a file left behind."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from npuc.cli import failure
from tests.cli.conftest import Npuc, Result, conv_model, model_bytes

Golden = Callable[[str, str], None]


def refused(result: Result, status: int = 1) -> str:
    """The message of a failure that has the form of one."""
    assert result.status == status, result
    assert result.out == ""
    assert re.fullmatch(r"error: [^\n]+(\n  [^\n]+)*\n", result.err), result.err
    return result.err


def test_a_model_that_is_garbage(npuc: Npuc, tmp_path: Path, rng: np.random.Generator) -> None:
    for name in ("m.onnx", "m.tflite"):
        (tmp_path / name).write_bytes(rng.bytes(3000))
        refused(npuc("compile", name, "-t", "edge-256", "--data", "x.npy") if name == "m.onnx" else
                npuc("compile", name, "-t", "edge-256"))  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]


def test_a_model_that_is_truncated(npuc: Npuc, tmp_path: Path, tiny: Path) -> None:
    data = tiny.read_bytes()
    for length in (0, 1, len(data) // 2, len(data) - 5):
        (tmp_path / "cut.onnx").write_bytes(data[:length])
        refused(npuc("compile", "cut.onnx", "-t", "edge-256", "--data", "x.npy"))


@pytest.mark.parametrize("command", [["compile", "no.onnx", "-t", "edge-256"], ["calibrate", "no.onnx", "--data", "x"],
                                     ["run", "no.npu", "-i", "x.npy"], ["profile", "no.npu"], ["disasm", "no.npu"],
                                     ["inspect", "no.npu"]], ids=lambda command: command[0])  # fmt: skip
def test_a_file_that_is_missing(command: list[str], npuc: Npuc) -> None:
    assert "no such file" in refused(npuc(*command)).lower()


def test_a_cyclic_model(npuc: Npuc, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("a", TensorProto.FLOAT, [1, 4])
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], "/a"), helper.make_node("Relu", ["a"], ["b"], "/b")]
    (tmp_path / "m.onnx").write_bytes(model_bytes(helper.make_graph(nodes, "loop", [x], [y])))
    refused(npuc("compile", "m.onnx", "-t", "edge-256", "--data", "x.npy"))


def test_unknown_operators_are_all_named(npuc: Npuc, tmp_path: Path, golden: Golden) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    nodes = [
        helper.make_node("Det", ["x"], ["a"], "/first"), helper.make_node("Einsum", ["a"], ["b"], "/second"),
        helper.make_node("Relu", ["b"], ["y"], "/third"),
    ]  # fmt: skip
    (tmp_path / "m.onnx").write_bytes(model_bytes(helper.make_graph(nodes, "odd", [x], [y])))
    message = refused(npuc("compile", "m.onnx", "-t", "edge-256", "--data", "x.npy"))
    assert "/first" in message
    assert "/second" in message
    golden("errors/unknown_operators.txt", message)


def test_symbolic_shapes_need_the_option(npuc: Npuc, tmp_path: Path, rng: np.random.Generator, golden: Golden) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model(("N", 3, "H", 8), rng))
    result = npuc("compile", "m.onnx", "-t", "edge-256", "--data", "x.npy")
    message = refused(result, result.status)
    assert result.status in (1, 2)
    assert "--shape" in message
    golden("errors/symbolic_shape.txt", message)


def test_nan_in_calibration_data(npuc: Npuc, tmp_path: Path, tiny: Path, golden: Golden) -> None:
    samples = np.zeros((2, 3, 8, 8), np.float32)
    samples[1, 2, 3, 4] = np.nan
    np.save(tmp_path / "x.npy", samples)
    message = refused(npuc("calibrate", tiny.name, "--data", "x.npy", "-o", "t.json"))
    golden("errors/nan_in_calibration.txt", message)
    assert not (tmp_path / "t.json").exists()


def test_a_float_model_needs_a_table_or_data(npuc: Npuc, tiny: Path, golden: Golden) -> None:
    golden("errors/no_calibration.txt", refused(npuc("compile", tiny.name, "-t", "edge-256"), 2))


def test_a_table_of_another_model(npuc: Npuc, tmp_path: Path, tiny: Path) -> None:
    assert npuc("calibrate", tiny.name, "--data", "x.npy", "-o", "t.json").status == 0
    model = onnx.load(tiny)
    model.producer_name = "another"
    onnx.save(model, tmp_path / "other.onnx")
    message = refused(npuc("compile", "other.onnx", "-t", "edge-256", "--calibration", "t.json"), 2)
    assert "made for another model" in message


def test_targets_that_do_not_exist_or_are_wrong(npuc: Npuc, tmp_path: Path, tiny: Path, golden: Golden) -> None:
    golden("errors/unknown_target.txt", refused(npuc("compile", tiny.name, "-t", "edge-512", "--data", "x.npy"), 2))
    (tmp_path / "t.toml").write_text('extends = "edge-256"\n[board]\nsram_bytes = -1\n')
    golden("errors/negative_size.txt", refused(npuc("compile", tiny.name, "-t", "t.toml", "--data", "x.npy")))
    refused(npuc("targets", "t.toml"))


@pytest.mark.parametrize("edit", ["flip", "cut", "garbage", "empty"])
def test_a_program_that_is_damaged(edit: str, npuc: Npuc, tmp_path: Path, tiny: Path, rng: np.random.Generator) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    data = bytearray((tmp_path / "tiny.npu").read_bytes())
    for place in rng.integers(0, len(data), 12).tolist():
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(8))
        variants = {"flip": broken, "cut": data[:place], "garbage": bytearray(rng.bytes(400)), "empty": bytearray()}
        (tmp_path / "bad.npu").write_bytes(variants[edit])
        for command in (["run", "bad.npu", "-i", "x.npy"], ["profile", "bad.npu"], ["inspect", "bad.npu"]):
            refused(npuc(*command))


def test_a_damaged_debug_map(npuc: Npuc, tmp_path: Path, tiny: Path) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    (tmp_path / "tiny.npu.map").write_text('{"schema": "npuc.map/1", "instructions": [{"index": "0"}]}')
    assert "not a debug map" in refused(npuc("profile", "tiny.npu"))


def test_a_lock_of_another_compilation(npuc: Npuc, tiny: Path) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    result = npuc("compile", tiny.name, "-t", "u55-like", "--data", "x.npy")
    assert result.status in (1, 2)
    assert "target" in result.err
    assert npuc("compile", tiny.name, "-t", "u55-like", "--data", "x.npy", "--update-lock").status == 0


def test_a_lock_of_other_options_names_them(npuc: Npuc, tiny: Path) -> None:
    compiling = ("compile", tiny.name, "-t", "edge-256", "--data", "x.npy", "--sram")
    assert npuc(*compiling, "65536").status == 0
    result = npuc(*compiling, "60000")
    assert result.status == 2
    assert "the lock file was made for another sram_bytes (locked 65536, now 60000)" in result.err



@pytest.mark.parametrize("edit", [("buffer", "bufer"), ("npuc-schedule 1", "npuc-schedule 0"), ("at=", "at=-")])
def test_a_lock_that_does_not_fit_says_how_to_renew_it(
    edit: tuple[str, str], npuc: Npuc, tmp_path: Path, tiny: Path
) -> None:
    compiling = ["compile", tiny.name, "-t", "edge-256", "--data", "x.npy"]
    assert npuc(*compiling).status == 0
    lock, program = tmp_path / "tiny.npuc.lock", (tmp_path / "tiny.npu").read_bytes()
    lock.write_text(lock.read_text().replace(*edit))
    result = npuc(*compiling)
    assert result.status == 1
    assert "error: the lock file does not fit what is compiled: " in result.err
    assert "--update-lock" in result.err
    assert npuc(*compiling, "--update-lock").status == 0
    assert (tmp_path / "tiny.npu").read_bytes() == program


def test_a_lock_whose_program_is_not_safe_is_an_error_of_the_lock(npuc: Npuc, tmp_path: Path, tiny: Path) -> None:
    compiling = ["compile", tiny.name, "-t", "edge-256", "--data", "x.npy"]
    assert npuc(*compiling).status == 0
    lock = tmp_path / "tiny.npuc.lock"
    lock.write_text(re.sub(r"(activation bytes=\d+ ring=\d+ at=)\d+", r"\g<1>0", lock.read_text()))
    result = npuc(*compiling)
    assert result.status == 1
    assert "not safe" in result.err


def test_too_little_sram_says_how_much_is_needed(npuc: Npuc, tiny: Path) -> None:
    message = refused(npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy", "--sram", "64"))
    assert re.search(r"\d{3,}", message)


def test_inputs_that_do_not_fit_the_program(npuc: Npuc, tmp_path: Path, tiny: Path) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    np.save(tmp_path / "bad.npy", np.zeros((1, 3, 9, 8), np.float32))
    refused(npuc("run", "tiny.npu", "-i", "bad.npy"))
    np.save(tmp_path / "nan.npy", np.full((1, 3, 8, 8), np.nan, np.float32))
    refused(npuc("run", "tiny.npu", "-i", "nan.npy"))


def test_a_stripped_program_cannot_be_checked(npuc: Npuc, tiny: Path) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy", "--strip").status == 0
    assert "--strip" in refused(npuc("run", "tiny.npu", "-i", "x.npy", "--check"), 2)
    assert npuc("run", "tiny.npu", "-i", "x.npy").status == 0


def test_a_folder_that_cannot_be_written(npuc: Npuc, tiny: Path) -> None:
    refused(npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy", "-o", "no/such/folder/p.npu"))


def test_a_bug_is_called_one(npuc: Npuc, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("npuc.cli.compile.read_target", fail)
    message = refused(npuc("compile", "m.onnx", "-t", "edge-256"), failure.INTERNAL)
    assert "internal error: ZeroDivisionError: division by zero" in message


def test_debugging_shows_the_traceback(npuc: Npuc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUC_DEBUG", "1")
    result = npuc("profile", "no.npu")
    assert result.status == 1
    assert "Traceback" in result.err
