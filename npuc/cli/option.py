"""Options that several commands share, and how their text is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from npuc.errors import UsageError

if TYPE_CHECKING:
    from isa.target import Target

BYTES = re.compile(r"([0-9]{1,15})\s*(|B|KiB|MiB|GiB)")
FACTORS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SHAPE = re.compile(r"[0-9]{1,9}(?:,[0-9]{1,9})*")


def complete_target(incomplete: str) -> list[str]:
    """Names of targets, for the shell."""
    from isa.target_file import target_names

    return [name for name in target_names() if name.startswith(incomplete)]


def complete_observer(incomplete: str) -> list[str]:
    """Names of observers, for the shell."""
    from calibration import OBSERVERS

    return [name for name in OBSERVERS if name.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON (docs/cli.md has the keys).")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The model: .onnx or .tflite.")]
Program = Annotated[Path, typer.Argument(metavar="PROGRAM", help="The program: .npu.")]
Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=1,3,224,224", help="Shape of an input with symbolic dimensions; repeatable."),
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="Samples: F.npy, F.npz[:key] or a folder of images, with @start:stop:step for some of them.",
    ),
]
Preprocess = Annotated[Path | None, typer.Option(metavar="P.toml", help="How images become inputs.")]
ObserverName = Annotated[
    str | None,
    typer.Option(
        help="How ranges are chosen: minmax, percentile[:P], entropy or mse.",
        metavar="NAME",
        autocompletion=complete_observer,
    ),
]
TargetName = Annotated[
    str,
    typer.Option(
        "--target", "-t", metavar="TARGET", help="A name from `npuc targets`, or a .toml file.",
        autocompletion=complete_target,
    ),
]  # fmt: skip
Sram = Annotated[str | None, typer.Option(metavar="BYTES", help="SRAM to use, as 512KiB or 2MiB.")]


def read_bytes(text: str | None) -> int | None:
    """A number of bytes with an optional unit; UsageError for anything else."""
    if text is None:
        return None
    match = BYTES.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise UsageError(f"size {text!r} is no positive number of bytes", hint="write it as 524288, 512KiB or 2MiB")
    return int(match[1]) * FACTORS[match[2]]


def read_shapes(texts: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Shapes by input name; a name may contain `:` and `=`. UsageError for anything that is no shape."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts or ():
        name, _, sizes = text.rpartition("=")
        if not name or not SHAPE.fullmatch(sizes) or 0 in map(int, sizes.split(",")):
            raise UsageError(f"shape {text!r} is not NAME=D,D,...", hint="write it as --shape input=1,3,224,224")
        if name in shapes:
            raise UsageError(f"input {name} has two shapes", hint="give --shape once for each input")
        shapes[name] = tuple(map(int, sizes.split(",")))
    return shapes


def read_target(text: str) -> Target:
    """A shipped target or one from a file; UsageError for an unknown name, IsaError for a bad file."""
    from isa.target_file import load_target, target_names

    if not text.endswith(".toml") and text not in target_names():
        raise UsageError(
            f"unknown target {text!r}, known are {', '.join(target_names())}",
            hint="choose one of them, or give the path of a .toml file",
        )
    return load_target(text)


def read_observer(name: str) -> str:
    """The name of an observer; UsageError for an unknown one."""
    from calibration import OBSERVERS

    if name.partition(":")[0] not in OBSERVERS:
        raise UsageError(f"unknown observer {name!r}", hint=f"choose one of {', '.join(OBSERVERS)}")
    return name
