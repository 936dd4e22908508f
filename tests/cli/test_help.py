"""Help, versions, usage errors and completion: what a user meets first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from npuc.cli.app import FIRST, MORE
from npuc.cli.option import read_bytes, read_shapes
from npuc.errors import UsageError
from tests.cli.conftest import Npuc
from tests.shared_data import ROOT

HEAVY = {"numba", "numpy", "onnx", "onnxruntime", "ortools", "unicorn"}


def test_root_help_shows_the_first_commands_before_the_others(npuc: Npuc) -> None:
    result = npuc("--help")
    assert result.status == 0
    places = [result.out.index(f"─ {name} ") for name in ("Commands", "More")]
    places[1:1] = [result.out.index(f"│ {name} ") for name in FIRST]
    places += [result.out.index(f"│ {name} ") for name in MORE]
    assert places == sorted(places)


@pytest.mark.parametrize("command", [*FIRST, *MORE])
def test_every_command_has_help(command: str, npuc: Npuc) -> None:
    result = npuc(command, "--help")
    assert result.status == 0
    assert f"npuc {command}" in result.out


def test_commands_do_not_load_what_they_do_not_need() -> None:
    program = f"""
import sys
from npuc.cli import main
try:
    main(["disasm", "--help"])
except SystemExit:
    print("loaded:", *sorted({HEAVY!r} & set(sys.modules)))
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1].split() == ["loaded:"]


def test_version_names_tool_instruction_set_and_container(npuc: Npuc) -> None:
    result = npuc("--version")
    assert result.status == 0
    assert result.out.startswith("npuc ")
    assert ", ISA 1." in result.out
    assert ", container 1\n" in result.out


@pytest.mark.parametrize(
    "arguments",
    [["--nonsense"], ["nonsense"], ["compile"], ["compile", "m.onnx", "--nonsense"], ["run", "p.npu"], []],
    ids=" ".join,
)
def test_wrong_usage_has_status_2(arguments: list[str], npuc: Npuc) -> None:
    result = npuc(*arguments)
    assert result.status == 2
    assert "Traceback" not in result.err


def test_completion_offers_targets() -> None:
    environment = {
        **os.environ, "_NPUC_COMPLETE": "complete_bash", "COMP_CWORD": "3",
        "COMP_WORDS": "npuc compile --target edge-1",
    }  # fmt: skip
    npuc = Path(sys.executable).with_name("npuc")
    result = subprocess.run([npuc], env=environment, capture_output=True, text=True, check=False)
    assert result.stdout.split() == ["edge-128"]


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("1", 1), ("524288", 524288), ("512KiB", 524288), ("2 MiB", 2 << 20), ("1GiB", 1 << 30), ("7B", 7)],
)
def test_sizes_have_binary_units(text: str, n_bytes: int) -> None:
    assert read_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "0", "-1", "512KB", "1.5MiB", "kib", "9" * 40])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no positive number of bytes"):
        read_bytes(text)


def test_names_in_shapes_may_hold_colons_and_equal_signs() -> None:
    assert read_shapes(["serving:0=1,3,4", "a=b=7"]) == {"serving:0": (1, 3, 4), "a=b": (7,)}


@pytest.mark.parametrize("text", ["x", "x=", "=1,2", "x=1,,2", "x=0,1", "x=-1", "x=1,N", "x=1 2"])
def test_other_shapes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not NAME=D,D"):
        read_shapes([text])


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")], ids=["unset", "chosen"])
def test_blas_gets_one_thread_unless_the_user_says_otherwise(given: dict[str, str], threads: str) -> None:
    program = """
import os, sys
from npuc.cli import main
assert "numpy" not in sys.modules
try:
    main(["--version"])
except SystemExit:
    print(os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"])
"""
    rest = {name: text for name, text in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=ROOT, env=rest | given, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == f"1 {threads}"


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "npuc", "--version"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("npuc ")
