"""Compilers are found or their absence explained; artifacts are built once; the header is what the table says."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from npuc.arm.kernel_spec import KERNEL, KERNELS, encode_parameters, n_words
from npuc.firmware import prebuild, toolchain
from npuc.firmware.kernel_header import HEADER, header_text
from npuc.firmware.toolchain import TARGETS, ToolchainError, build_kernels, find_compiler


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("NPUC_CC", raising=False)


def compiler_script(folder: Path, body: str) -> str:
    """An executable that answers `--version` and otherwise does `body`."""
    path = folder / "compiler"
    version = 'for last; do :; done\nif [ "$last" = --version ]; then echo fake 1.0; exit 0; fi'
    path.write_text(f"#!/bin/sh\n{version}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_header_is_generated_from_the_table() -> None:
    assert HEADER.read_text() == header_text(), "run python -m npuc.firmware.kernel_header"


def test_kernel_ids_are_distinct_and_names_too() -> None:
    assert len({spec.kernel_id for spec in KERNELS}) == len(KERNEL) == len(KERNELS)


def test_second_build_runs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_kernels("host")
    monkeypatch.setattr(toolchain, "run_compiler", lambda command: pytest.fail("it compiled again"))
    assert build_kernels("host") == first
    assert [path.name for path in first.parent.iterdir()] == [first.name]
    assert [path.name for path in first.parent.parent.iterdir()] == [first.parent.name]


def test_another_flag_gives_another_artifact() -> None:
    assert build_kernels("host", extra=("-O0",)) != build_kernels("host", extra=("-O1",))


def test_named_compiler_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPUC_CC", f"{compiler_script(tmp_path, 'exit 1')} --verbose")
    compiler = find_compiler(TARGETS["cortex-m4"])
    assert compiler.command[:2] == (str(tmp_path / "compiler"), "--verbose")
    assert (compiler.command[2:], compiler.version) == (TARGETS["cortex-m4"].machine, "fake 1.0")


def test_absence_of_every_compiler_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ToolchainError) as failure:
        find_compiler(TARGETS["cortex-m33"])
    assert failure.value.message == (
        "no C compiler for cortex-m33: looked for $NPUC_CC, arm-none-eabi-gcc, ziglang"
    )  # fmt: skip
    assert "pip install 'npuc[arm]'" in failure.value.hint


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with an image for each core, on a machine that has no compiler."""
    monkeypatch.setattr(toolchain, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setattr(prebuild, "PREBUILT", tmp_path / "prebuilt")
    (tmp_path / "prebuilt").mkdir()
    (tmp_path / "prebuilt" / "npuc_kernels_old.elf").touch()
    (tmp_path / "built.elf").write_text("image")
    monkeypatch.setattr(prebuild, "build_kernels", lambda name: tmp_path / "built.elf")
    assert len(prebuild.prebuild()) == len(TARGETS) - 1
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return tmp_path / "prebuilt"


def test_without_a_compiler_the_image_of_the_package_is_used(package: Path) -> None:
    assert len(os.listdir(package)) == len(TARGETS) - 1
    for name, target in TARGETS.items():
        if not target.is_host:
            assert build_kernels(name).read_text() == "image"
            assert build_kernels(name).parent == package


def test_an_image_of_other_sources_is_not_used(package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sources = shutil.copytree(toolchain.KERNELS, tmp_path / "kernels")
    (sources / "conv2d.c").write_text("/* changed */")
    monkeypatch.setattr(toolchain, "KERNELS", sources)
    with pytest.raises(ToolchainError, match="no C compiler for cortex-m33"):
        build_kernels("cortex-m33")


def test_an_image_is_no_substitute_for_flags_or_a_compiler_that_was_named(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolchainError, match="no C compiler"):
        build_kernels("cortex-m33", extra=("-O0",))
    monkeypatch.setenv("NPUC_CC", "/nowhere/cc")
    with pytest.raises(ToolchainError, match="does not run"):
        build_kernels("cortex-m33")


def test_a_named_compiler_that_does_not_run_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(ToolchainError, match=r"compiler \$CC does not run"):
        find_compiler(TARGETS["host"])


def test_a_failed_build_shows_the_complaint_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler_script(tmp_path, "echo conv2d.c: no luck >&2; exit 3"))
    with pytest.raises(ToolchainError, match=r"failed with status 3:\n  conv2d\.c: no luck"):
        build_kernels("host")
    assert os.listdir(tmp_path / "cache" / "npuc") == []


def test_a_process_that_loses_the_race_uses_what_the_other_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", compiler_script(tmp_path, "echo late > $last"))
    place = build_kernels("host")
    place.unlink()
    place.parent.rmdir()
    compiler_script(tmp_path, f"echo late > $last; mkdir -p {place.parent}; echo early > {place}")
    assert build_kernels("host") == place
    assert place.read_text() == "early\n"


def test_parameters_are_words_in_the_order_of_the_fields() -> None:
    spec = KERNEL["table"]
    tensor = ((1, 16), (1, 2, 3, 4), (24, 12, 4, 1))
    data = encode_parameters(spec, {"is_unsigned": True, "y": tensor, "x": tensor, "table": (2, -1)})
    assert len(data) == 4 * sum(map(n_words, spec.fields)) == 4 * 23
    assert data[40:48] == (2).to_bytes(4, "little") + (-1).to_bytes(4, "little", signed=True)
    assert data[88:] == bytes([1, 0, 0, 0])


@pytest.mark.parametrize(("values", "message"), [
    ({"x": (0,) * 10, "y": (0,) * 10}, "kernel table takes x, table, y, is_unsigned; got x, y"),
    ({"x": (0,) * 9, "y": (0,) * 10, "table": (0, 0), "is_unsigned": 0}, "table.x has 9 words, need 10"),
])  # fmt: skip
def test_parameters_that_do_not_fit_the_record_are_refused(values: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_parameters(KERNEL["table"], values)
