"""`npuc verify`: proofs, executors layer by layer, and the first layer of a program that computes something else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from isa.assembler import assemble_listing
from isa.container import descriptors_offset, read_container, write_container
from npuc.cli.executor import KernelExecutor
from npuc.firmware.toolchain import ToolchainError
from npuc.verify import Finding, Verdict
from tests.cli.conftest import Npuc
from tests.shared_data import leave_out

HOST = ("--executor", "simulator", "--executor", "host")


@pytest.fixture
def program(npuc: Npuc, tiny: Path, tmp_path: Path) -> Path:
    """The compiled model of `tiny`."""
    assert npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy", "--no-lock").status == 0
    return tmp_path / "tiny.npu"


def verified(npuc: Npuc, *arguments: str | Path, status: int = 0) -> dict[str, Any]:
    """The document of `verify --json`."""
    result = npuc("verify", *arguments, "--json")
    assert result.status == status, result.err
    found: dict[str, Any] = json.loads(result.out)
    assert found.keys() >= {"schema", "ok", "executors", "races", "proofs"}
    assert (found["schema"], found["ok"]) == ("npuc.verify/1", status == 0)
    return found


def test_verify_json(npuc: Npuc, program: Path) -> None:
    found = verified(npuc, program, *HOST, "--samples", "3")
    assert (found["samples"], found["races"], found["findings"]) == (3, [], [])
    assert found["proofs"]["outputs_written"] == 1
    assert list(found["executors"]) == ["reference", "simulator", "host"]
    for row in found["executors"].values():
        assert row.keys() >= {"ok", "cpu_s", "first_difference"}
        assert (row["ok"], row["first_difference"], row["error"]) == (True, None, None)
        assert row["layers"] == 1


@pytest.mark.parametrize("key", ["cycles", "lower_bound_cycles"])
def test_claims_of_cycles_are_checked(npuc: Npuc, program: Path, key: str) -> None:
    container = read_container(program.read_bytes())
    program.write_bytes(write_container(replace(container, metadata={**container.metadata, key: 10**6})))
    (finding,) = verified(npuc, program, *HOST, status=1)["findings"]
    assert finding["kind"] == "cycles"
    assert "1000000" in finding["message"]


def test_given_samples_are_used(npuc: Npuc, program: Path) -> None:
    assert verified(npuc, program, *HOST, "-i", "x.npy")["samples"] == 6
    assert verified(npuc, program, *HOST, "-i", "x.npy", "--samples", "2")["samples"] == 2
    assert npuc("verify", program, *HOST, "-i", "missing.npy").status == 1


def test_executors_without_a_compiler_are_left_out(npuc: Npuc, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ToolchainError(f"no C compiler for {name}", stage="firmware", hint="install one")

    monkeypatch.setattr("npuc.cli.comparison.kernel_backend", refuse)
    found = verified(npuc, program)
    assert list(found["executors"]) == ["reference", "simulator"]
    assert found["skipped"] == {name: f"no C compiler for {name}" for name in ("host", "m4", "m33", "aarch64")}
    assert "m33        not run: no C compiler for m33" in npuc("verify", program).out
    assert npuc("verify", program, "--executor", "m33").status == 1


def with_other_constants(program: Path) -> bytes:
    """The program with a high bit of the first channel's bias or multiplier changed: its layer computes otherwise."""
    container = read_container(program.read_bytes())
    constants = bytearray(container.constants)
    constants[3] ^= 16
    return write_container(replace(container, constants=bytes(constants)))


def test_the_first_layer_that_differs_is_named(npuc: Npuc, program: Path) -> None:
    program.write_bytes(with_other_constants(program))
    found = verified(npuc, program, *HOST, status=1)["executors"]
    difference = found["simulator"]["first_difference"]
    assert (difference["layer"], difference["output"], difference["sample"]) == ("/conv", "y", 0)
    assert difference["got"] != difference["expected"]
    assert found["host"]["ok"]
    program.with_name("tiny.npu.map").unlink()
    assert not verified(npuc, program, *HOST, status=1)["executors"]["simulator"]["ok"]
    text = npuc("verify", program, *HOST).out
    assert "simulator  DIFFERS, 1 samples" in text
    assert "host       1 layers equal, 1 samples" in text
    assert "in layer /conv, y[0, 0, " in text


def test_kernels_that_differ_are_named(npuc: Npuc, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = KernelExecutor.run

    def wrong(executor: KernelExecutor, inputs: Any) -> Any:
        outputs = exact(executor, inputs)
        executor.values["y"][0, 1, 2, 3] ^= 1
        return outputs

    monkeypatch.setattr(KernelExecutor, "run", wrong)
    found = verified(npuc, program, *HOST, status=1)["executors"]
    assert found["simulator"]["ok"]
    assert (found["host"]["first_difference"]["layer"], found["host"]["first_difference"]["index"]) == (
        "/conv", [0, 1, 2, 3],
    )  # fmt: skip


def without_waits(program: Path) -> bytes:
    """The program with every condition taken away."""
    from isa.assembler import disassemble

    container = read_container(program.read_bytes())
    base = descriptors_offset(len(container.constants))
    lines = disassemble(container.instructions, container.descriptors, base).splitlines()
    bare = "\n".join(line.partition(" ; wait")[0] for line in lines) + "\n"
    return write_container(replace(container, instructions=assemble_listing(bare).instructions))


def test_a_race_is_a_failure_even_when_the_outputs_are_right(npuc: Npuc, program: Path) -> None:
    program.write_bytes(without_waits(program))
    found = verified(npuc, program, *HOST, status=1)
    assert found["races"]
    assert found["races"][0]["kind"] == "race"
    assert found["executors"]["simulator"]["ok"]
    text = npuc("verify", program, *HOST).out
    assert "NOT SAFE" in text
    assert "layer /conv" in text


def test_a_fault_of_the_simulator_is_a_failure(npuc: Npuc, program: Path) -> None:
    row = verified(npuc, program, "--executor", "simulator", "--sram", "64", status=1)["executors"]["simulator"]
    assert not row["ok"]
    assert "sram" in row["error"]


def test_a_stripped_program_is_proven_and_not_run(npuc: Npuc, program: Path) -> None:
    container = read_container(program.read_bytes())
    program.write_bytes(write_container(replace(container, reference=b"")))
    result = npuc("verify", program)
    assert result.status == 0
    assert "proven" in result.out
    assert "nothing was run" in result.err


def test_files_that_are_no_program(npuc: Npuc, program: Path) -> None:
    program.write_bytes(program.read_bytes()[:200])
    assert npuc("verify", program).status == 1
    assert npuc("verify", "missing.npu").status == 1
    assert npuc("verify", program, "--executor", "abacus").status == 2


def test_a_program_that_is_not_safe_is_never_written(
    npuc: Npuc, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    race = Finding("race", "instruction 4 vec.add reads what instruction 3 mac.conv writes")
    monkeypatch.setattr("npuc.verify.verify_program", lambda *_, **__: Verdict(False, (race,), (), {}))
    compile_tiny = ("compile", tiny.name, "-t", "edge-256", "--data", "x.npy")
    result = npuc(*compile_tiny)
    assert result.status == 70
    assert "not safe for every timing: race: instruction 4" in result.err
    assert "this is a bug of npuc" in result.err
    assert not list(tmp_path.glob("*.npu*"))


def test_compile_says_what_is_proven(npuc: Npuc, tiny: Path) -> None:
    found = json.loads(npuc("compile", tiny.name, "-t", "edge-256", "--data", "x.npy", "--json").out)
    assert found["proofs"]["instructions"] > 3
    assert found["proof_cpu_s"] <= found["cpu_s"]


@pytest.mark.parametrize("place", ["host", "arm"])
def test_kernels_run_a_program_like_the_simulator(place: str, npuc: Npuc, program: Path) -> None:
    try:
        require_compiler(place)
    except ToolchainError as failure:
        leave_out(failure.message)
    assert npuc("run", program, "-i", "x.npy", "-o", "a.npz").status == 0
    result = npuc("run", program, "-i", "x.npy", "-o", "b.npz", "--on", place, "--check", "--json")
    found = json.loads(result.out)
    assert (found["on"], found["check"], found["samples"], found["cycles"]) == (place, "bit-exact", 6, None)
    assert Path("a.npz").read_bytes() == Path("b.npz").read_bytes()
    assert f"6 samples on the {place}: not checked" in npuc("run", program, "-i", "x.npy", "--on", place).out
    assert npuc("run", program, "-i", "x.npy", "--on", place, "--strict").status == 2


def require_compiler(place: str) -> None:
    from npuc.firmware.toolchain import TARGETS, find_compiler

    find_compiler(TARGETS["host" if place == "host" else "cortex-m33"])
