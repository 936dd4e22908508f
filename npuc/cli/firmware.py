"""`npuc firmware`: programs as C files for a firmware build, and firmware in co-simulation."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from npuc.cli.console import note
from npuc.cli.debug_map import layer_names, read_map
from npuc.cli.option import Sram, TargetName, read_bytes, read_target
from npuc.errors import UsageError

if TYPE_CHECKING:
    from npuc.firmware.model_source import Model

EXPORT = "export"
FOLDERS = ("--cmake-dir", "--zephyr-module")

Programs = Annotated[list[Path] | None, typer.Argument(metavar="PROGRAM...", help="Programs: .npu.")]
Folder = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write or to replace.")]
Name = Annotated[str | None, typer.Option(metavar="M", help="Prefix of all symbols; default: the program's file name.")]
RuntimeOnly = Annotated[bool, typer.Option("--runtime-only", help="Write the driver alone, without a model.")]
CmakeDir = Annotated[bool, typer.Option("--cmake-dir", help="Print the folder of npuc-config.cmake.")]
ZephyrModule = Annotated[bool, typer.Option("--zephyr-module", help="Print the folder of the Zephyr module.")]
Image = Annotated[Path, typer.Argument(metavar="APP.elf", help="The linked firmware.")]
FlashPrograms = Annotated[
    list[str] | None,
    typer.Option("--program", metavar="F.npu@ADDRESS", help="Program that lies in flash beside the image; repeatable."),
]
MaxInstructions = Annotated[int, typer.Option(min=1, metavar="N", help="Give up after so many instructions.")]


class FirmwareGroup(TyperGroup):
    """`npuc firmware PROGRAM...` is `npuc firmware export PROGRAM...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the name of the command in front when it is left out."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names, "--help", *FOLDERS}:
            args = [EXPORT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=FirmwareGroup, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.callback(invoke_without_command=True)
def firmware(cmake_dir: CmakeDir = False, zephyr_module: ZephyrModule = False) -> None:
    """C files of programs for a firmware build: npuc firmware PROGRAM.npu -o DIR; or run firmware beside the NPU."""
    if cmake_dir or zephyr_module:
        from npuc.firmware.bundle import CMAKE, ZEPHYR

        print(CMAKE if cmake_dir else ZEPHYR)
        raise typer.Exit


@app.command(EXPORT)
def export(
    output: Folder,
    programs: Programs = None,
    name: Name = None,
    debug_map: Annotated[Path | None, typer.Option("--map", metavar="F", help="Default: PROGRAM.map.")] = None,
    runtime_only: RuntimeOnly = False,
) -> None:
    """Write the C files of programs, the driver and fragments for linker and make; the word export may be left out."""
    from npuc.firmware.bundle import bundle_files, write_folder

    paths = programs or []
    if bool(paths) == runtime_only:
        raise UsageError("give programs, or --runtime-only without any", hint="see npuc firmware export --help")
    if len(paths) > 1 and (name or debug_map):
        raise UsageError("--name and --map are for one program", hint="export the programs one by one")
    files = bundle_files([read_model(path, name or path.stem, debug_map) for path in paths])
    write_folder(output, files)
    note(f"{output}: {len(files)} files")


def read_model(path: Path, name: str, debug_map: Path | None) -> Model:
    """The model of a program file, bound once to memory of its size: every access and every range of a call fits."""
    import numpy as np

    from npuc.firmware.bundle import make_model
    from simulator.machine import Machine
    from simulator.program import load

    data, names = path.read_bytes(), read_map(path, debug_map)
    program = load(data)
    model = make_model(data, name, layer_names(names, len(program.code)))
    Machine(program, sram=np.zeros(model.arena_bytes, np.uint8))
    return model


@app.command("run")
def run(
    image: Image,
    target: TargetName = "edge-256",
    sram: Sram = None,
    program: FlashPrograms = None,
    max_instructions: MaxInstructions = 10**9,
) -> None:
    """Run firmware on an emulated Cortex-M33 beside the NPU; the exit status is that of the firmware."""
    from simulator.arm_image import load_image
    from simulator.arm_machine import ArmMachine

    def show(text: bytes) -> None:
        sys.stdout.write(text.decode("utf-8", "replace"))
        sys.stdout.flush()

    firmware_image = load_image(image)
    for text in program or ():
        address, path = read_place(text)
        firmware_image = firmware_image.with_data(address, path.read_bytes())
    machine = ArmMachine(firmware_image, read_target(target), show, read_bytes(sram))
    try:
        status = machine.run(max_instructions)
    finally:
        for report in machine.device.reports:
            note(f"npu: {report}")
    raise typer.Exit(status)


def read_place(text: str) -> tuple[int, Path]:
    """Address and path of F@ADDRESS; UsageError for anything else."""
    path, _, address = text.rpartition("@")
    try:
        return int(address, 0), Path(path or ".")
    except ValueError:
        raise UsageError(f"{text!r} is not FILE@ADDRESS", hint="write it as model.npu@0x08100000") from None
