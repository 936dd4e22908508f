"""Commands on programs with Arm calls: kernels are found or given, layers compared, the Arm core is in the profile."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isa.arm_calls import decode_arm_calls, encode_arm_calls
from isa.container import read_container, write_container
from npuc.compiler import Options, compile_model
from npuc.firmware.toolchain import ToolchainError, build_kernels
from npuc.graph.graph import Graph
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize
from tests.cli.conftest import Npuc
from tests.core.test_partition import between_convolutions, reversal
from tests.firmware_runtime.build import TARGET
from tests.shared_data import leave_out

HOST = ("--executor", "simulator", "--executor", "host")


def write(folder: Path, graph: Graph) -> Path:
    """The program and its debug map."""
    compiled = compile_model(graph, None, Options(TARGET))
    path = folder / "m.npu"
    path.write_bytes(compiled.program)
    (folder / "m.npu.map").write_text(json.dumps(compiled.debug_map))
    np.save(folder / "x.npy", np.random.default_rng(0).integers(-128, 128, (3, 5, 8, 8), np.int8))
    return path


@pytest.fixture
def floats(tmp_path: Path) -> Path:
    return write(tmp_path, between_convolutions(Dequantize(0.05, 3), LogSoftmax(), Quantize(0.05, 3)))


@pytest.fixture
def reversed_rows(tmp_path: Path) -> Path:
    return write(tmp_path, between_convolutions(reversal((1, 5, 8, 8), 2)))


@pytest.mark.parametrize("option", [(), ("--strict",), ("--on", "host")])
def test_run_is_bit_exact_with_float_nodes(option: tuple[str, ...], npuc: Npuc, floats: Path) -> None:
    result = npuc("run", floats, "-i", "x.npy", "--check", "--json", *option)
    assert json.loads(result.out)["check"] == "bit-exact", result.err


def test_verify_compares_the_layers_on_the_arm_core(npuc: Npuc, floats: Path) -> None:
    result = npuc("verify", floats, *HOST, "-i", "x.npy", "--json")
    found = json.loads(result.out)
    assert (result.status, found["ok"], found["proofs"]["arm_calls"]) == (0, True, 3)
    assert found["executors"]["simulator"]["layers"] == 5
    assert found["executors"]["host"]["layers"] == 5


def test_a_call_that_computes_something_else_is_named_by_its_layer(npuc: Npuc, reversed_rows: Path) -> None:
    """The copy takes the rows as they are: its first stride has another sign."""
    container = read_container(reversed_rows.read_bytes())
    (call,) = decode_arm_calls(container.arm_calls)
    words = np.frombuffer(call.parameters, "<i4").copy()
    (negative,) = np.flatnonzero((words < 0) & (words > -1000))
    words[negative] //= 2
    changed = encode_arm_calls([replace(call, parameters=words.tobytes())])
    reversed_rows.write_bytes(write_container(replace(container, arm_calls=changed)))
    result = npuc("verify", reversed_rows, "--executor", "simulator", "-i", "x.npy", "--json")
    difference = json.loads(result.out)["executors"]["simulator"]["first_difference"]
    assert (result.status, difference["layer"]) == (1, "n1")


@pytest.mark.parametrize("word", [1 << 29, -64, -(1 << 31), 1 << 20])
def test_a_kernel_that_would_leave_its_memories_is_a_fault(word: int, npuc: Npuc, reversed_rows: Path) -> None:
    """Wherever the damage is done to the parameters, this process lives on."""
    container = read_container(reversed_rows.read_bytes())
    (call,) = decode_arm_calls(container.arm_calls)
    words = np.frombuffer(call.parameters, "<i4").copy()
    words[3] = word  # where the destination begins
    changed = encode_arm_calls([replace(call, parameters=words.tobytes())])
    reversed_rows.write_bytes(write_container(replace(container, arm_calls=changed)))
    result = npuc("run", reversed_rows, "-i", "x.npy")
    assert (result.status, result.out) == (1, "")
    assert "error: arm call 0 (kernel 10): its kernel leaves sram and the program" in result.err


def test_an_image_runs_the_kernels(npuc: Npuc, reversed_rows: Path) -> None:
    try:
        images = [build_kernels(core) for core in ("cortex-m33", "aarch64")]
    except ToolchainError as failure:
        leave_out(f"{failure.message}; {failure.hint}")
        raise
    for image in images:
        result = npuc("run", reversed_rows, "-i", "x.npy", "--check", "--kernels", image, "--json")
        assert json.loads(result.out)["check"] == "bit-exact", result.err
    assert npuc("run", reversed_rows, "-i", "x.npy", "--kernels", "x.npy").status == 1
    assert npuc("run", reversed_rows, "-i", "x.npy", "--kernels", images[0], "--on", "host").status == 2


def test_without_a_compiler_the_error_says_what_was_looked_for(
    npuc: Npuc, reversed_rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise ToolchainError(f"no C compiler for {name}", stage="firmware", hint="install one")

    monkeypatch.setattr("npuc.cli.executor.kernel_backend", refuse)
    result = npuc("run", reversed_rows, "-i", "x.npy")
    assert result.status == 1
    assert "the program has arm calls, and nothing can run their kernels: no C compiler for host; no" in result.err
    assert "hint: install a C compiler, or give an image with --kernels F.elf" in result.err


def test_profile_shows_the_arm_core(npuc: Npuc, floats: Path) -> None:
    document = json.loads(npuc("profile", floats, "--json").out)
    units = {layer["name"]: layer["unit"] for layer in document["layers"]}
    assert {name for name, unit in units.items() if unit == "arm"} == {"n1", "n2", "n3"}
    calls = decode_arm_calls(read_container(floats.read_bytes()).arm_calls)
    assert document["arm_cycles"] == sum(call.cycles for call in calls)
    assert sum(layer["cycles"] for layer in document["layers"]) == document["cycles"]
    assert "kernels on the Arm core in" in npuc("profile", floats).out


def test_listings_and_inspection_show_the_calls(npuc: Npuc, reversed_rows: Path, tmp_path: Path) -> None:
    container = read_container(reversed_rows.read_bytes())
    (call,) = decode_arm_calls(container.arm_calls)
    assert json.loads(npuc("inspect", reversed_rows, "--json").out)["arm_calls"] == {"copy": 1}
    assert "arm call " in npuc("inspect", reversed_rows).out
    listing = npuc("disasm", reversed_rows).out
    reads, writes = (f"{item.address:#x}+{item.n_bytes}" for item in call.ranges)
    head = f"# arm call 0: copy version=1 cycles={call.cycles} reads={reads} writes={writes}; wait"
    last = listing.splitlines()[-1]
    assert last.startswith(head)
    assert last.endswith("; n1")
    (tmp_path / "m.asm").write_text(listing)
    assert npuc("asm", "m.asm", "--like", reversed_rows, "-o", "again.npu").status == 0
    assert (tmp_path / "again.npu").read_bytes() == reversed_rows.read_bytes()


def test_firmware_of_a_program_with_calls_has_its_kernels(npuc: Npuc, floats: Path, tmp_path: Path) -> None:
    assert npuc("firmware", floats, "-o", "out").status == 0
    kernels = json.loads((tmp_path / "out" / "m.json").read_text())["kernels"]
    assert kernels == ["float_quantize", "float_dequantize", "float_softmax"]
    assert (tmp_path / "out" / "npuc_kernel_float_softmax.c").exists()
    assert not (tmp_path / "out" / "npuc_kernel_conv2d.c").exists()
    layers = json.loads((tmp_path / "out" / "m.json").read_text())["layers"]
    assert [layer["name"] for layer in layers] == ["n0", "n1", "n2", "n3", "n4", "y.trans_data"]
    assert npuc("firmware", "--runtime-only", "-o", "all").status == 0
    assert (tmp_path / "all" / "npuc_kernel_conv2d.c").exists()
