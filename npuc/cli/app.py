"""The commands, in the order of `npuc --help`; every one imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from npuc.cli.accuracy import accuracy
from npuc.cli.allocate import allocate
from npuc.cli.calibrate import calibrate
from npuc.cli.compile import compile_program
from npuc.cli.demo import demo
from npuc.cli.firmware import app as firmware
from npuc.cli.inspect import inspect
from npuc.cli.listing import asm, disasm
from npuc.cli.ops import ops
from npuc.cli.pareto import pareto
from npuc.cli.profile import profile
from npuc.cli.run import run
from npuc.cli.targets import targets
from npuc.cli.verify import verify

Command = Callable[..., None]

FIRST: dict[str, Command] = {"compile": compile_program, "calibrate": calibrate, "run": run, "profile": profile}
MORE: dict[str, Command] = {
    "verify": verify, "accuracy": accuracy, "inspect": inspect, "disasm": disasm, "asm": asm, "targets": targets,
    "ops": ops, "allocate": allocate, "pareto": pareto, "demo": demo,
}  # fmt: skip

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def print_version(wanted: bool) -> None:
    """Print the versions of the tool, the instruction set and the container, and stop."""
    if not wanted:
        return
    from importlib.metadata import version

    from isa.container_format import CONTAINER_VERSION, ISA_VERSION

    print(f"npuc {version('npuc')}, ISA {ISA_VERSION[0]}.{ISA_VERSION[1]}, container {CONTAINER_VERSION}")
    raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the versions and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Compile ONNX and TFLite networks to int8 programs for an edge NPU, and run them on its simulator."""


for name, command in FIRST.items():
    app.command(name, rich_help_panel="Commands")(command)
app.add_typer(firmware, name="firmware", rich_help_panel="Commands")
for name, command in MORE.items():
    app.command(name, rich_help_panel="More")(command)
