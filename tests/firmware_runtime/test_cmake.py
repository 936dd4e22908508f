"""The example of the docs: find_package, two models, an image that runs; and a second build that does nothing."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npuc.firmware.bundle import CMAKE
from simulator.arm_image import load_image
from tests.firmware_runtime.build import BOARD, run
from tests.firmware_runtime.test_cosimulation import N_MODES, expected_lines
from tests.shared_data import leave_out

BIN = Path(sys.executable).parent
PATH = os.pathsep.join([str(BIN), os.environ.get("PATH", "")])


def toolchain(name: str) -> list[str]:
    """CMake options of a toolchain file; the test is left out where its compiler is missing."""
    has_gcc, has_zig = shutil.which("arm-none-eabi-gcc"), importlib.util.find_spec("ziglang")
    if not {"arm-none-eabi": has_gcc, "zig": has_zig}[name]:
        leave_out(f"no compiler for {name}.cmake to build the example with")
    options = [f"-DPython3_EXECUTABLE={sys.executable}"] if name == "zig" else []
    return ["--toolchain", str(BOARD / f"{name}.cmake"), *options]


@pytest.fixture(scope="module", params=["arm-none-eabi", "zig"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build folder of the example."""
    folder = tmp_path_factory.mktemp("cmake")
    generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
    cmake("-S", str(BOARD), "-B", str(folder), "-G", generator, f"-Dnpuc_DIR={CMAKE}",
          f"-DNPUC_EXECUTABLE={BIN / 'npuc'}", *toolchain(request.param))  # fmt: skip
    cmake("--build", str(folder))
    return folder


def cmake(*arguments: str) -> None:
    command = shutil.which("cmake", path=PATH)
    if command is None:
        leave_out("no cmake to build the example with")
    environment = {**os.environ, "PATH": PATH}
    result = subprocess.run(
        [str(command), *arguments], env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def stamps(folder: Path) -> dict[str, int]:
    names = ("*.obj", "*.o", "*.a", "*.elf", "*.npu", "*-model/*")
    return {str(path): path.stat().st_mtime_ns for name in names for path in folder.rglob(name)}


def test_the_image_runs_and_prints_what_the_simulator_computes(built: Path) -> None:
    status, text, _ = run(load_image(built / "app.elf"))
    assert status == 0
    assert text.splitlines() == [*expected_lines()] * N_MODES


def test_a_second_build_does_nothing(built: Path) -> None:
    before = stamps(built)
    assert len(before) > 20
    cmake("--build", str(built))
    assert stamps(built) == before
    cmake("-S", str(BOARD), "-B", str(built))
    cmake("--build", str(built))
    assert stamps(built) == before


def test_mistakes_in_npuc_add_model_are_named(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(x NONE)\nfunction(add_library)\nendfunction()\n"
        "function(target_include_directories)\nendfunction()\nfunction(target_link_libraries)\nendfunction()\n"
        "function(target_compile_options)\nendfunction()\n"
        "find_package(npuc REQUIRED CONFIG)\nnpuc_add_model(m m.onnx CALIBRATED t.json)\n"
    )
    options = [f"-Dnpuc_DIR={CMAKE}", f"-DNPUC_EXECUTABLE={BIN / 'npuc'}", "-G", "Unix Makefiles"]
    with pytest.raises(AssertionError, match=r"npuc_add_model\(<library> <model> TARGET <target>"):
        cmake("-S", str(tmp_path), "-B", str(tmp_path / "build"), *options)
