"""Finds C compilers and builds the kernels on first use, into the user's cache.

The cache is `$XDG_CACHE_HOME/npuc`, by default `~/.cache/npuc`. An artifact's folder is named after a hash of sources,
flags and the compiler's version, so that a change of any of them builds anew; it appears complete or not at all.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from npuc.errors import NpucError

STAGE = "firmware"
KERNELS = Path(__file__).parent / "kernels"
PREBUILT = Path(__file__).parent / "prebuilt"
"""Images that a wheel carries for machines without a compiler: `python -m npuc.firmware.prebuild` fills it."""

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wundef", "-pedantic", "-Werror")
# Products and sums of float32 are rounded one by one, on every processor.
_FREESTANDING = ("-ffp-contract=off", "-ffreestanding", "-fno-builtin", "-ffunction-sections", "-fdata-sections", "-g0",
                 "-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-fno-exceptions")  # fmt: skip
# No start-up files, no libraries; zig would otherwise add its checks and pages of 64 KiB.
_IMAGE = ("-nostdlib", "-static", "-fno-pie", "-fno-sanitize=undefined", "-Wl,-e,npuc_conv2d",
          "-Wl,-z,max-page-size=16", f"-Wl,-T,{KERNELS / 'image.ld'}")  # fmt: skip

log = logging.getLogger(STAGE)


class ToolchainError(NpucError):
    """No compiler was found, or it failed."""


@dataclass(frozen=True)
class Target:
    """What to build for: flags of every compiler, its usual names, and how those and zig are told the processor."""

    name: str
    flags: tuple[str, ...]
    compilers: tuple[str, ...]
    machine: tuple[str, ...] = ()
    zig: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    suffix: str = ".elf"

    @property
    def is_host(self) -> bool:
        """True for a shared object of this machine."""
        return self.suffix == ".so"


@dataclass(frozen=True)
class Compiler:
    """A command line that compiles C for one target, and what it says about its version."""

    command: tuple[str, ...]
    version: str


def _cortex(name: str, unit: str, zig_processor: str) -> Target:
    """A Cortex-M with a floating-point unit of single precision."""
    machine = (f"-mcpu={name}", "-mthumb", "-mfloat-abi=hard", f"-mfpu={unit}")
    zig = ("-target", "thumb-freestanding-eabihf", f"-mcpu={zig_processor}")
    return Target(name, ("-O2",), ("arm-none-eabi-gcc",), machine, zig)


TARGETS = {
    target.name: target
    for target in (
        Target("host", ("-O3", "-fPIC", "-shared"), ("cc", "gcc", "clang"), suffix=".so"),
        _cortex("cortex-m4", "fpv4-sp-d16", "cortex_m4+vfp4d16sp"),
        _cortex("cortex-m7", "fpv5-sp-d16", "cortex_m7+fp_armv8d16sp"),
        _cortex("cortex-m33", "fpv5-sp-d16", "cortex_m33+fp_armv8d16sp"),
        # Without a floating-point unit; the compiler's runtime computes float32.
        Target("cortex-m4-soft", ("-O2",), ("arm-none-eabi-gcc",), ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft"),
               libraries=("-lgcc",)),
        Target("aarch64", ("-O3",), ("aarch64-none-elf-gcc", "aarch64-linux-gnu-gcc"),
               zig=("-target", "aarch64-freestanding-none")),
    )
}  # fmt: skip


def kernel_sources() -> list[Path]:
    """The C files of the kernels, sorted."""
    return sorted(KERNELS.glob("*.c"))


def find_compiler(target: Target) -> Compiler:
    """The first compiler there is: $NPUC_CC (cross) or $CC (host), the target's usual ones, ziglang.

    ToolchainError: there is none, or the one that a variable names does not run.
    """
    variable = "CC" if target.is_host else "NPUC_CC"
    named = os.environ.get(variable, "")
    if named:
        return _probe((*shlex.split(named), *target.machine), f"${variable}")
    for name in target.compilers:
        if path := shutil.which(name):
            return _probe((path, *target.machine), name)
    if (target.zig or target.is_host) and importlib.util.find_spec("ziglang") is not None:
        return _probe((sys.executable, "-m", "ziglang", "cc", *target.zig), "ziglang")
    raise ToolchainError(
        f"no C compiler for {target.name}: looked for ${variable}, {', '.join(target.compilers)}, ziglang", stage=STAGE,
        hint=f"install one of them (pip install 'npuc[arm]' brings ziglang) or name a compiler in ${variable}",
    )  # fmt: skip


@cache
def _probe(command: tuple[str, ...], name: str) -> Compiler:
    try:
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"compiler {name} does not run: {error}", stage=STAGE,
                             hint="repair it or name another one") from error  # fmt: skip
    return Compiler(command, result.stdout.partition("\n")[0])


def cache_folder() -> Path:
    """Where artifacts are kept."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "npuc"


def build_kernels(target_name: str, *, extra: tuple[str, ...] = ()) -> Path:
    """Path of the kernels built for a target of TARGETS, with `extra` flags; builds them unless the cache has them.

    Where there is no compiler, and none is named, it is the image that came with the package.
    """
    target = TARGETS[target_name]
    try:
        compiler = find_compiler(target)
    except ToolchainError:
        image = prebuilt_image(target)
        if extra or os.environ.get("NPUC_CC") or not image.exists():
            raise
        return image
    flags = (*WARNINGS, *_FREESTANDING, *target.flags, *(() if target.is_host else _IMAGE), *extra)
    key = _digest(repr((compiler.command, compiler.version, flags)))
    artifact = cache_folder() / key / f"npuc_kernels_{target.name}{target.suffix}"
    if not artifact.exists():
        log.info("building the kernels for %s with %s", target.name, compiler.version)
        _build([*compiler.command, *flags], artifact, target.libraries)
    return artifact


def prebuilt_image(target: Target) -> Path:
    """Where the image of these sources is, if it came with the package."""
    return PREBUILT / f"npuc_kernels_{target.name}_{_digest('')}{target.suffix}"


def _digest(settings: str) -> str:
    """Of the kernels' sources and of how they are built."""
    key = hashlib.sha256(settings.encode())
    for path in sorted(KERNELS.iterdir()):
        key.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return key.hexdigest()[:32]


def _build(command: list[str], artifact: Path, libraries: tuple[str, ...]) -> None:
    """Compile in a temporary folder beside the artifact's and rename it into place."""
    cached = artifact.parent
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix="build-") as name:
        made = Path(name) / "artifact"
        made.mkdir()
        run_compiler([*command, *map(str, kernel_sources()), *libraries, "-o", str(made / artifact.name)])
        try:
            made.rename(cached)
        except OSError:
            if not artifact.exists():  # not merely a second process that was faster
                raise


def run_compiler(command: list[str]) -> None:
    """Run a compiler; ToolchainError with the first lines of its complaint when it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        complaint = "\n  ".join(result.stderr.strip().splitlines()[:8])
        raise ToolchainError(f"{command[0]} failed with status {result.returncode}:\n  {complaint}", stage=STAGE,
                             hint="name another compiler, or report this as a bug of npuc")  # fmt: skip
