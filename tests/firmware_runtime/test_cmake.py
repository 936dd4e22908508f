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
from tests.firmware_runtime.example import N_MODES, expected_lines
from tests.shared_data import leave_out, shared_file

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
    programs = {name: (built / f"{name}.npu").read_bytes() for name in ("ink", "digits")}
    assert text.splitlines() == [*expected_lines(programs)] * N_MODES


def test_a_second_build_does_nothing(built: Path) -> None:
    before = stamps(built)
    assert len(before) > 20
    cmake("--build", str(built))
    assert stamps(built) == before
    cmake("-S", str(BOARD), "-B", str(built))
    cmake("--build", str(built))
    assert stamps(built) == before


WITHOUT_C = """cmake_minimum_required(VERSION 3.20)
project(x NONE)
foreach(command add_library target_include_directories target_link_libraries target_compile_options)
  function(${command})
  endfunction()
endforeach()
find_package(npuc REQUIRED CONFIG)
"""


def configure_without_c(folder: Path, commands: str) -> None:
    (folder / "CMakeLists.txt").write_text(WITHOUT_C + commands)
    cmake("-S", str(folder), "-B", str(folder / "build"), f"-Dnpuc_DIR={CMAKE}", f"-DNPUC_EXECUTABLE={BIN / 'npuc'}",
          "-G", "Unix Makefiles")  # fmt: skip


def test_mistakes_in_npuc_add_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"npuc_add_model\(<library> <model> TARGET <target>"):
        configure_without_c(tmp_path, "npuc_add_model(m m.onnx CALIBRATED t.json)\n")


def test_a_lock_is_written_by_the_first_build_honored_by_the_next_and_renewed_by_its_target(tmp_path: Path) -> None:
    model = f"{BOARD}/ink.onnx TARGET edge-256 CALIBRATION {BOARD}/ink.json LOCK ink.npuc.lock"
    configure_without_c(tmp_path, f"npuc_add_model(ink {model})\nadd_custom_target(program ALL DEPENDS ink.npu)\n")
    lock, program, build = tmp_path / "ink.npuc.lock", tmp_path / "build" / "ink.npu", str(tmp_path / "build")
    cmake("--build", build)
    first = lock.read_bytes(), program.read_bytes()
    program.unlink()
    cmake("--build", build)
    assert (lock.read_bytes(), program.read_bytes()) == first
    lock.write_bytes(first[0].replace(b'"npuc": "', b'"npuc": "9.'))
    program.unlink()
    with pytest.raises(AssertionError, match="the lock file was made for another npuc"):
        cmake("--build", build)
    cmake("--build", build, "--target", "ink_update_lock")
    cmake("--build", build)
    assert (lock.read_bytes(), program.read_bytes()) == first


MIXED = """cmake_minimum_required(VERSION 3.20)
project(mixed C)
find_package(npuc REQUIRED CONFIG)
npuc_add_model(lenet %(model)s TARGET edge-256)
add_executable(app.elf main.c %(board)s/board.c)
target_include_directories(app.elf PRIVATE %(board)s)
target_link_libraries(app.elf PRIVATE lenet)
target_link_options(app.elf PRIVATE -Wl,-T,%(board)s/board.ld)
"""

MIXED_MAIN = """#include "board.h"
#include "lenet.h"

npuc_device npu;
static npuc_context context;
static uint8_t arena[LENET_ARENA_BYTES] __attribute__((aligned(LENET_ARENA_ALIGNMENT)));

int main(void)
{
    require(npuc_device_init(&npu, NPU_BASE, NPUC_INTERRUPT));
    require(lenet_init(&context, &npu, arena, sizeof arena));
    require(npuc_run(&context));
    return 7;
}
"""


@pytest.mark.parametrize("name", ["arm-none-eabi", "zig"])
def test_a_model_with_arm_calls_links_the_kernels_that_it_calls(name: str, tmp_path: Path) -> None:
    model = shared_file("models", "tflite", "lenet300.tflite")
    (tmp_path / "CMakeLists.txt").write_text(MIXED % {"model": model, "board": BOARD})
    (tmp_path / "main.c").write_text(MIXED_MAIN)
    generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
    cmake("-S", str(tmp_path), "-B", str(tmp_path / "build"), "-G", generator, f"-Dnpuc_DIR={CMAKE}",
          f"-DNPUC_EXECUTABLE={BIN / 'npuc'}", *toolchain(name))  # fmt: skip
    cmake("--build", str(tmp_path / "build"))
    image = load_image(tmp_path / "build" / "app.elf")
    assert run(image)[0] == 7
    kernels = {function for _, _, function in image.functions if function.startswith("npuc_")}
    assert {"npuc_float_dequantize", "npuc_float_softmax"} <= kernels
    assert not {"npuc_conv2d", "npuc_lstm", "npuc_float_conv2d"} & kernels
