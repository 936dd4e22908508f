"""The whole line through the command line: calibrate, compile, run --check, profile, and the files they leave."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration import load_labels
from npuc.cli import main
from tests.cli.conftest import DIGITS, Npuc
from tests.shared_data import ROOT, shared_file


def document(npuc: Npuc, *arguments: str | Path) -> dict[str, Any]:
    """The JSON result of a command that succeeds and says nothing else on stdout."""
    result = npuc(*arguments, "--json")
    assert result.status == 0, result.err
    parsed: dict[str, Any] = json.loads(result.out)
    assert parsed["schema"] == f"npuc.{arguments[0]}/1"
    return parsed


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the digit reader, calibrated and compiled as in the tour of README.md."""
    folder, model = tmp_path_factory.mktemp("digits"), DIGITS / "model.onnx"
    table, output = str(folder / "digits.json"), str(folder / "digits.npu")
    for arguments in (
        ["calibrate", str(model), "--data", f"{DIGITS / 'digits.npz'}:calib", "-o", table],
        ["compile", str(model), "--calibration", table, "--target", "edge-256", "-o", output],
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 0
    return folder


@pytest.fixture
def program(compiled: Path, tmp_path: Path) -> Path:
    """The compiled digit reader in the current folder, with its debug map."""
    for name in ("digits.npu", "digits.npu.map"):
        shutil.copy(compiled / name, tmp_path / name)
    return tmp_path / "digits.npu"


def test_the_tour_of_the_readme_works_as_written(npuc: Npuc, tmp_path: Path) -> None:
    for name in ("model.onnx", "digits.npz"):
        shutil.copy(DIGITS / name, tmp_path / name)
    tour = (ROOT / "README.md").read_text(encoding="utf-8").split("## Sixty seconds")[1].split("## ")[0]
    commands = [line.split()[1:] for line in tour.splitlines() if line.startswith("    npuc ")]
    assert [command[0] for command in commands] == ["calibrate", "compile", "run", "profile", "verify"]
    for command in commands:
        assert npuc(*command).status == 0, command


def test_outputs_are_those_of_the_float_model(npuc: Npuc, program: Path) -> None:
    result = npuc("run", program, "--input", DIGITS / "digits.npz", "--output", "probabilities.npz", "--check")
    assert result.status == 0
    assert "bit-exact" in result.out
    with np.load("probabilities.npz") as outputs:
        probabilities = outputs["probabilities"]
    assert probabilities.dtype == np.float32
    labels = load_labels(str(DIGITS / "digits.npz"))
    assert (probabilities.argmax(axis=1) == labels).mean() > 0.99
    assert "residual1" in npuc("profile", program).out


def test_compile_json(npuc: Npuc, tmp_path: Path) -> None:
    data = f"{DIGITS / 'digits.npz'}:calib@:16"
    found = document(npuc, "compile", DIGITS / "model.onnx", "--data", data, "-t", "u55-like", "-o", "d.npu")
    assert found.keys() >= {
        "program", "sha256", "target", "sram", "cycles", "flash", "npu_mac_share", "arm_nodes", "transdata_count",
        "cpu_s",
    }  # fmt: skip
    assert found["sram"].keys() >= {"peak_bytes", "bound_bytes", "status", "gap_bytes"}
    assert found["cycles"].keys() >= {"predicted", "arm", "bound"}
    flash = found["flash"]
    assert flash.keys() >= {"program_bytes", "weights_bytes", "weights_raw_bytes", "offchip_bytes"}
    assert 0 < flash["weights_bytes"] <= flash["weights_raw_bytes"]
    assert 0 < flash["stream_bytes"] <= flash["offchip_stream_bytes"] < flash["offchip_bytes"]
    assert found["flash"]["program_bytes"] == (tmp_path / "d.npu").stat().st_size
    assert found["target"] == "u55-like"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.npu", "d.npu.map", "d.npuc.lock"]


def test_run_json(npuc: Npuc, program: Path) -> None:
    source = f"{DIGITS / 'digits.npz'}:x@:3"
    found = document(npuc, "run", program, "-i", source, "--check")
    assert (found["samples"], found["on"], found["check"], found["first_difference"]) == (
        3, "simulator", "bit-exact", None,
    )  # fmt: skip
    unchecked = document(npuc, "run", program, "-i", f"image={source}", "--independent", "--strict")
    assert unchecked["check"] is None
    assert unchecked["cycles"] == found["cycles"] > 0


def test_profile_json(npuc: Npuc, program: Path) -> None:
    found = document(npuc, "profile", program)
    assert found.keys() >= {
        "cycles", "arm_cycles", "bound_cycles", "ratio", "macs", "utilization", "sram_peak_bytes", "offchip_bytes",
        "layers",
    }  # fmt: skip
    for layer in found["layers"]:
        assert layer.keys() >= {
            "name", "unit", "sources", "cycles", "macs", "utilization", "bytes", "bound_by", "stalls",
        }  # fmt: skip
        assert layer["sources"]
        assert layer["arm_only_cycles"] > layer["cycles"]
    assert found["arm_only_cycles"] == sum(layer["arm_only_cycles"] for layer in found["layers"])
    assert sum(layer["cycles"] for layer in found["layers"]) == found["cycles"]
    assert sum(layer["bytes"] for layer in found["layers"]) == found["offchip_bytes"]
    assert found["ratio"] == found["cycles"] / found["bound_cycles"]
    table = npuc("profile", program, "--csv").out.splitlines()
    assert len(table) == 1 + len(found["layers"])


def test_inspect_json(npuc: Npuc, program: Path) -> None:
    found = document(npuc, "inspect", program)
    assert [row["name"] for row in found["io"]] == ["image", "probabilities"]
    assert {row["name"] for row in found["sections"]} >= {"constants", "descriptors", "instructions", "reference"}
    assert found["transdata_count"] == 0
    assert found["sram_status"] == "optimal"
    assert found["instructions"]["mac.conv"] > 0
    assert "QConv" in npuc("inspect", program, "--graph").out


def test_accuracy_json(npuc: Npuc, program: Path) -> None:
    data, labels = f"{DIGITS / 'digits.npz'}:x", f"{DIGITS / 'digits.npz'}"
    found = document(npuc, "accuracy", DIGITS / "model.onnx", "--program", program, "--data", data, "--labels", labels)
    assert found.keys() >= {
        "sqnr_db", "cosine", "agreement", "top1_float", "top1_int8", "metric", "layers",
    }  # fmt: skip
    assert found["sqnr_db"] > 25
    assert "residual1/add" in [layer["name"] for layer in found["layers"]]
    assert all(layer["sqnr_db"] > 25 and 0 <= layer["saturation"] < 0.01 for layer in found["layers"])
    assert found["top1_float"] - found["top1_int8"] < 0.007


def test_a_difference_is_found_and_has_status_1(npuc: Npuc, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    from simulator.machine import Machine

    exact = Machine.run

    def wrong(machine: Machine, inputs: Any) -> Any:
        outputs = exact(machine, inputs)
        outputs["y"][0, 2, 1, 3] ^= 1
        return outputs

    monkeypatch.setattr(Machine, "run", wrong)
    result = npuc("run", "tiny.npu", "-i", "x.npy", "--check", "--json")
    found = json.loads(result.out)
    assert result.status == 1
    assert found["check"] == "differs"
    difference = found["first_difference"]
    assert (difference["sample"], difference["output"], difference["index"]) == (0, "y", [0, 2, 1, 3])
    assert difference["got"] == difference["expected"] ^ 1


def test_listing_round_trip(npuc: Npuc, program: Path, tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text(npuc("disasm", program).out)
    assert npuc("asm", "d.txt", "--like", program, "-o", "again.npu").status == 0
    assert (tmp_path / "again.npu").read_bytes() == program.read_bytes()


def test_lock_and_schedule_give_the_same_bytes(npuc: Npuc, tiny: Path, tmp_path: Path) -> None:
    compile_tiny = ("compile", tiny.name, "-t", "edge-256", "--data", "x.npy")
    assert npuc(*compile_tiny, "--emit-schedule", "s.txt").status == 0
    first = (tmp_path / "tiny.npu").read_bytes()
    locked = npuc(*compile_tiny)
    assert "using tiny.npuc.lock" in locked.err
    assert (tmp_path / "tiny.npu").read_bytes() == first
    assert npuc(*compile_tiny, "--no-lock", "--schedule", "s.txt").status == 0
    assert (tmp_path / "tiny.npu").read_bytes() == first
    assert npuc(*compile_tiny, "--no-lock", "--lock", "x.lock").status == 2


def test_dumps_and_exports(npuc: Npuc, tiny: Path, tmp_path: Path) -> None:
    compile_tiny = ("compile", tiny.name, "-t", "edge-256", "--data", "x.npy")
    assert npuc(*compile_tiny, "--dump-after", "all", "--dump-dir", "d", "--export-onnx", "e.onnx").status == 0
    names = [path.name for path in sorted((tmp_path / "d").iterdir())]
    assert names[:2] == ["01-import.txt", "02-eliminate_dead_code.txt"]
    quantized = next(name for name in names if name.endswith("-quantize.txt"))
    assert names.index(quantized) > 10
    assert "QConv" in (tmp_path / "d" / quantized).read_text()
    assert npuc(*compile_tiny, "--dump-after", "fold_batch_norm", "--dump-dir", "f").status == 0
    assert [path.name.partition("-")[2] for path in (tmp_path / "f").iterdir()] == ["fold_batch_norm.txt"]
    assert (tmp_path / "e.onnx").stat().st_size > 400
    unknown = npuc(*compile_tiny, "--dump-after", "nonsense")
    assert unknown.status == 2
    assert "quantize" in unknown.err


def test_images_in_the_other_layout(npuc: Npuc, tiny: Path, tmp_path: Path) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    np.save(tmp_path / "nhwc.npy", np.load("x.npy").transpose(0, 2, 3, 1))
    assert npuc("run", "tiny.npu", "-i", "x.npy", "-o", "a.npz").status == 0
    assert npuc("run", "tiny.npu", "-i", "nhwc.npy", "--input-layout", "nhwc", "-o", "b.npz").status == 0
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_stored_integers_are_used_raw(npuc: Npuc, tiny: Path, rng: np.random.Generator) -> None:
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy").status == 0
    entry = document(npuc, "inspect", "tiny.npu")["io"][0]
    raw = rng.integers(-128, 128, (2, 3, 8, 8), np.int8)
    np.save("raw.npy", raw)
    np.save("real.npy", np.float32(entry["scale"]) * (raw.astype(np.float32) - entry["zero_point"]))
    assert npuc("run", "tiny.npu", "-i", "raw.npy", "-o", "a.npz").status == 0
    assert npuc("run", "tiny.npu", "-i", "real.npy", "-o", "b.npz").status == 0
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()


@pytest.mark.parametrize("command", ["targets", "ops"])
def test_listings_as_json(command: str, npuc: Npuc) -> None:
    found = document(npuc, command)
    rows = found["targets"] if command == "targets" else [*found["onnx"], *found["tflite"]]
    assert len(rows) > 5
    assert npuc(command).status == 0


def test_one_target_in_full(npuc: Npuc) -> None:
    assert document(npuc, "targets", "edge-256")["board"]["sram_bytes"] == 512 * 1024
    assert "[costs]" in npuc("targets", "edge-256").out


def test_demo(npuc: Npuc) -> None:
    result = npuc("demo")
    assert result.status == 0, result.err
    for text in ("float accuracy  99.78 %", "bit-exact on every image", "% of the array", "SRAM:"):
        assert text in result.out


@pytest.mark.shared
def test_a_tflite_model_needs_no_calibration(npuc: Npuc) -> None:
    model = shared_file("models", "tflite", "micro_speech.tflite")
    found = document(npuc, "compile", model, "-t", "edge-256", "-o", "m.npu")
    assert found["cycles"]["predicted"] > 0
    assert npuc("compile", model, "-t", "edge-256", "--data", "x.npy").status == 2
    assert npuc("calibrate", model, "--data", "x.npy").status == 2
