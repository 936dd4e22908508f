"""Acceptance checks of firmware: the example from a clean checkout, and what the driver takes."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from benchmarks.checks import Outcome
from benchmarks.network import ROOT
from benchmarks.process import Run, npuc, run
from tests.firmware_runtime import footprint
from tests.firmware_runtime.example import N_MODES, N_SAMPLES, expected_lines

EXAMPLE = Path("examples") / "firmware-bare-metal"
BUILT = ("*.obj", "*.o", "*.a", "*.elf", "*.npu", "*-model/*")


def example(folder: Path) -> Outcome:
    """The example of a fresh clone, by the commands of its page with each toolchain: outputs, and a second build."""
    outcome, clone = Outcome(), folder / "example"
    shutil.rmtree(clone, ignore_errors=True)
    outcome.add(run(["git", "clone", "--quiet", ROOT, clone]))
    outcome.add(run(["make", "--no-print-directory", "setup"], folder=clone))
    with_gcc, build, launch, with_zig, *_ = documented_commands(clone / EXAMPLE / "README.md")
    for toolchain, configure in (("arm-none-eabi-gcc", with_gcc), ("zig", with_zig)):
        if toolchain == "zig":
            outcome.add(shell("pip install --quiet 'npuc[arm]'", clone))
        shutil.rmtree(clone / EXAMPLE / "build", ignore_errors=True)
        outcome.add(shell(configure, clone))
        outcome.add(shell(build, clone))
        before = stamps(clone / EXAMPLE / "build")
        outcome.add(shell(build, clone))
        again = before != stamps(clone / EXAMPLE / "build")
        printed = outcome.add(shell(launch, clone)).out.splitlines()
        equal = count_equal(printed, clone / EXAMPLE / "build")
        outcome.figures |= {f"{toolchain}: equal outputs": equal, f"{toolchain}: second build does something": again}
        outcome.require(equal == 2 * N_SAMPLES * N_MODES == len(printed) and len(before) > 20 and not again)
    left = outcome.add(run(["git", "status", "--porcelain"], folder=clone)).out
    outcome.figures |= {"of": 2 * N_SAMPLES * N_MODES, "changed files": left}
    outcome.require(not left)
    return outcome


def documented_commands(page: Path) -> list[str]:
    """The indented lines of a page."""
    return re.findall(r"^    (\S.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)


def shell(command: str, clone: Path) -> Run:
    """Run a command of the example's page as its reader does, with the environment of the clone."""
    path = os.pathsep.join([str(clone / ".venv" / "bin"), os.environ.get("PATH", "")])
    return run(["bash", "-c", command], folder=clone / EXAMPLE, environment={"PATH": path})


def stamps(build: Path) -> dict[str, int]:
    """When each file that a build makes was written."""
    return {str(path): path.stat().st_mtime_ns for name in BUILT for path in build.rglob(name)}


def count_equal(printed: list[str], build: Path) -> int:
    """How many lines are what the simulator computes from the programs that were built."""
    programs = {name: (build / f"{name}.npu").read_bytes() for name in ("ink", "digits")}
    expected = [*expected_lines(programs)] * N_MODES
    return sum(got == want for got, want in zip(printed, expected, strict=False))


def size(folder: Path) -> Outcome:
    """Code, RAM and stack of runtime and driver, by the commands of docs/firmware.md; what it calls from outside."""
    outcome, place = Outcome(), folder / "size"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    writing, _, compiling, measuring = footprint.documented_commands()
    outcome.add(npuc(*writing.split()[1:], folder=place))
    outcome.add(run(compiling.split(), folder=place / "runtime"))
    measured = outcome.add(run(measuring.split(), folder=place / "runtime"))
    code, ram = footprint.total_bytes(measured.out)
    stacks = footprint.stacks(place / "runtime")
    objects = sorted((place / "runtime").glob("*.o"))
    foreign = foreign_symbols(outcome.add(run(["arm-none-eabi-nm", *objects])).out)
    outcome.figures = {
        "code_bytes": code, "ram_bytes": ram, "limit_code_bytes": 8192, "limit_ram_bytes": 512,
        "deepest_stack_bytes": max(stack.deepest for stack in stacks.values()), "called_from_outside": sorted(foreign),
        "size": measured.out.splitlines(),
        "stack": {name: f"{stack.own}, {stack.deepest}" for name, stack in stacks.items() if stack.deepest},
    }  # fmt: skip
    outcome.require(code <= 8192 and ram <= 512 and foreign <= {"memcpy", "memset"})
    outcome.require(all(stacks[name] == stack for name, stack in footprint.documented_stacks().items()))
    return outcome


def foreign_symbols(listing: str) -> set[str]:
    """Symbols that `nm` lists as undefined and nowhere as defined: what the driver takes from others."""
    rows = [line.split() for line in listing.splitlines()]
    defined = {row[2] for row in rows if len(row) == 3}
    return {row[1] for row in rows if len(row) == 2 and row[0] == "U"} - defined
