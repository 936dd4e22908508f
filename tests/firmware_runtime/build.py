"""Small firmware for tests: programs compiled here, C compiled with whatever cross compiler there is."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from calibration import read_table
from isa.container import Container, write_container
from isa.target_file import load_target
from npuc.compiler import Options, compile_model, import_model
from npuc.firmware.bundle import bundle_files, make_model
from npuc.firmware.model_source import Model
from npuc.firmware.toolchain import TARGETS, WARNINGS, ToolchainError, find_compiler, run_compiler
from simulator.arm_image import ArmImage, load_image
from simulator.arm_machine import ArmMachine
from tests.shared_data import ROOT, leave_out

BOARD = ROOT / "examples" / "firmware-bare-metal"
TARGET = load_target("edge-256")
MODELS = {"digits": ROOT / "examples" / "digits" / "model.onnx", "ink": BOARD / "ink.onnx"}
FLAGS = (*WARNINGS, "-Os", "-ffreestanding", "-ffunction-sections", "-fdata-sections", "-g", "-fno-unwind-tables",
         "-fno-sanitize=undefined")  # fmt: skip
LINK = ("-nostdlib", "-static", "-Wl,--gc-sections", "-Wl,-z,max-page-size=16", "-Wl,-e,reset_handler",
        f"-Wl,-T,{BOARD / 'board.ld'}")  # fmt: skip


@cache
def compiler() -> tuple[str, ...]:
    """The command of a compiler for Cortex-M33."""
    try:
        return find_compiler(TARGETS["cortex-m33"]).command
    except ToolchainError as failure:
        leave_out(f"{failure.message}; {failure.hint}")
        raise


@cache
def program(name: str) -> bytes:
    """A model of the example, compiled."""
    table = read_table(BOARD / f"{name}.json")
    return compile_model(import_model(MODELS[name], {}), table, Options(TARGET)).program


@cache
def model(name: str) -> Model:
    """The same for firmware, without layers."""
    return make_model(program(name), name, {})


def variant(origin: Model, name: str, data: bytes | None = None, **changes: object) -> Model:
    """A model with another name and other bytes, or other contents of the container."""
    container: Container = replace(origin.container, **changes)  # type: ignore[arg-type]
    return replace(origin, name=name, container=container, data=write_container(container) if data is None else data)


def build(folder: Path, main: str | Path, models: Sequence[Model], *, sources: Sequence[Path] = ()) -> ArmImage:
    """Firmware of the board's start-up code, the runtime, the models, and a `main` given as text or as a file."""
    for name, content in bundle_files(models).items():
        (folder / name).write_bytes(content)
    path = folder / "main.c"
    path.write_text(main) if isinstance(main, str) else shutil.copy(main, path)
    files = [*sorted(folder.glob("*.c")), BOARD / "board.c", *sources]
    image = folder / "app.elf"
    run_compiler([*compiler(), *FLAGS, f"-I{folder}", f"-I{BOARD}", *map(str, files), *LINK, "-o", str(image)])
    return load_image(image)


def run(image: ArmImage, max_instructions: int = 100_000_000) -> tuple[int, str, ArmMachine]:
    """Exit status, output, and the machine afterwards."""
    output = bytearray()
    machine = ArmMachine(image, TARGET, output.extend)
    status = machine.run(max_instructions)
    return status, output.decode(), machine
