"""The folder of `npuc firmware`: the same bytes every time, whole or not at all, C that no compiler complains about."""

import ctypes
import json
import shutil
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isa import arithmetic
from isa.arm_calls import ArmCall, encode_arm_calls
from isa.container import read_container, write_container
from isa.container_format import CONSTANTS_OFFSET, TABLE_OFFSET, IoEntry
from isa.errors import IsaError
from isa.instructions import Queue
from isa.registers import DEVICE_VERSION, REGISTERS
from isa.state import StateEntry, encode_states
from npuc.cli import main
from npuc.errors import UsageError
from npuc.firmware.bundle import RUNTIME, FirmwareError, bundle_files, make_model, write_folder
from npuc.firmware.model_source import Layer, comment, identifier, literal, real
from npuc.firmware.toolchain import WARNINGS
from simulator.arm_image import load_image
from tests.firmware_runtime.build import BOARD, FLAGS, compiler, model, program, run, variant
from tests.shared_data import ROOT, leave_out
from tests.simulator.arm import mixed_binary

ABI = 0x4E500002
HOSTILE = 'a*/ b"\\??/\n#error é'


def test_the_same_program_gives_the_same_files() -> None:
    assert bundle_files([model("ink")]) == bundle_files([make_model(program("ink"), "ink", {})])


def test_the_program_in_c_is_the_container_without_its_reference_graph() -> None:
    stored = read_container(model("ink").data)
    assert stored == replace(read_container(program("ink")), reference=b"")
    text = bundle_files([model("ink")])["ink_program.c"].decode()
    words = [int(word, 16) for word in text[text.index("{\n") + 2 :].replace("u,", "").split()[:-1]]
    assert np.array(words, "<u4").tobytes() == model("ink").data


def host_compilers() -> list[str]:
    return [name for name in ("gcc", "clang", "g++", "clang++") if shutil.which(name)]


@pytest.mark.parametrize("command", [*host_compilers(), "cross"])
def test_generated_files_and_runtime_compile_without_a_warning(command: str, tmp_path: Path) -> None:
    io = (*model("ink").container.io, replace(model("ink").container.io[0], name=HOSTILE))
    hostile = replace(
        variant(model("ink"), "hostile", io=io), layers=(Layer(HOSTILE, 2, 1),)
    )  # fmt: skip
    calling = make_model(mixed_binary(), "calling", {})
    for name, content in bundle_files([model("ink"), hostile, calling]).items():
        (tmp_path / name).write_bytes(content)
    if command.endswith("++"):
        headers = "\n".join(f'#include "{path.name}"' for path in sorted(tmp_path.glob("*.h")))
        (tmp_path / "all.cpp").write_text(headers)
        call = [command, "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "all.cpp"]
        subprocess.run(call, cwd=tmp_path, check=True)
        return
    call = [*(compiler() if command == "cross" else [command]), *WARNINGS, "-c"]
    for path in sorted(tmp_path.glob("*.c")):
        subprocess.run([*call, path.name, "-o", "out.o"], cwd=tmp_path, check=True)


def test_names_for_c_are_harmless() -> None:
    assert identifier("3 Weird/näme!") == "_3_weird_n_me"
    assert identifier("") == "x"
    assert comment(HOSTILE) == 'a_/ b"\\__/_#error _'
    assert literal('a"\\?\n') == r'"a\042\134\077\012"'
    assert [real(value) for value in (1.0, 1e-8, 0.1)] == ["1.0f", "1e-08f", "0.1f"]
    entry: IoEntry = model("ink").container.io[0]
    twins = variant(model("ink"), "twins", io=(replace(entry, name="a b"), replace(entry, name="a_b")))
    assert [name for name, _ in twins.tensors()] == ["input_a_b", "input_a_b_2"]


@pytest.mark.parametrize("name", ["npuc_driver", "npuc", "ink"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"the name {name} is taken"):
        bundle_files([model("ink"), variant(model("ink"), name)])


def test_programs_that_the_driver_cannot_serve_are_refused() -> None:
    container = read_container(program("ink"))
    in_dram = replace(container.io[0], address=2 << 30)
    for changed, message in (
        (replace(container, io=(in_dram,)), "lies in dram"),
        (replace(container, metadata={}), "does not say how much sram"),
    ):
        with pytest.raises(FirmwareError, match=message):
            make_model(write_container(changed), "m", {})
    with pytest.raises(IsaError):
        make_model(b"no program", "m", {})


def test_a_folder_is_replaced_as_a_whole_and_only_if_it_is_ours(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    write_folder(folder, bundle_files([model("ink"), variant(model("ink"), "second")]))
    write_folder(folder, bundle_files([model("ink")]))
    assert sorted(path.name for path in folder.iterdir()) == sorted(bundle_files([model("ink")]))
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.c").write_text("precious")
    (tmp_path / "file").write_text("precious")
    for taken in ("mine", "file"):
        with pytest.raises(FirmwareError, match="was not written by npuc firmware"):
            write_folder(tmp_path / taken, {"npuc.json": b""})
    assert (tmp_path / "mine" / "work.c").read_text() == (tmp_path / "file").read_text() == "precious"


def test_a_failure_in_between_leaves_the_old_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", {"npuc.json": b"old"})
    with pytest.raises(FirmwareError, match="cannot write"):
        write_folder(tmp_path / "out", {"npuc.json": b"new", "no/such/folder.c": b""})
    assert (tmp_path / "out" / "npuc.json").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def npuc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Invoke:
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        return int(stop.value.code or 0), *capsys.readouterr()

    return invoke


def test_the_command_writes_models_driver_and_fragments(npuc: Invoke, tmp_path: Path) -> None:
    (tmp_path / "ink.npu").write_bytes(program("ink"))
    assert npuc("firmware", "ink.npu", "-o", "out")[0] == 0
    assert npuc("firmware", "-o", "again", "ink.npu", "--name", "other")[0] == 0
    assert (tmp_path / "out" / "ink.h").exists()
    assert (tmp_path / "again" / "other.h").exists()
    record = json.loads((tmp_path / "out" / "ink.json").read_text())
    assert record["arena_bytes"] == model("ink").arena_bytes
    assert npuc("firmware", "--runtime-only", "-o", "runtime")[0] == 0
    assert (tmp_path / "runtime" / "npuc_driver.c").exists()
    status, out, _ = npuc("firmware", "--cmake-dir")
    assert status == 0
    assert (Path(out.strip()) / "npuc-config.cmake").is_file()
    assert npuc("firmware", "-o", "nothing")[0] == 2
    assert npuc("firmware", "ink.npu", "ink.npu", "-o", "x", "--name", "y")[0] == 2
    assert not (tmp_path / "nothing").exists()


def test_a_program_whose_record_of_sram_is_too_low_is_refused(npuc: Invoke, tmp_path: Path) -> None:
    container = read_container(program("digits"))
    reach = max((entry.address & 0x3FFFFFFF) + entry.n_bytes for entry in container.io)
    assert reach < container.metadata["sram_peak_bytes"]
    lying = replace(container, metadata={**container.metadata, "sram_peak_bytes": reach})
    (tmp_path / "m.npu").write_bytes(write_container(lying))
    status, _, message = npuc("firmware", "m.npu", "-o", "out")
    assert (status, (tmp_path / "out").exists()) == (1, False)
    assert f"limit {reach:#x}" in message


@pytest.mark.parametrize("half_even", [True, False])
@pytest.mark.parametrize(("kind", "dtype"), [(0, "int8"), (1, "uint8"), (2, "int16")])
def test_floats_are_converted_to_the_bits_of_the_host_tools(
    kind: int, dtype: str, half_even: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    if not (command := shutil.which("cc")):
        leave_out("no C compiler for this machine")
    source, library = RUNTIME / "npuc_float.c", tmp_path / "float.so"
    subprocess.run([str(command), *WARNINGS, "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)

    class Quantization(ctypes.Structure):
        _fields_ = (("dtype", ctypes.c_int), ("scale", ctypes.c_float), ("zero_point", ctypes.c_int32),
                    ("half_even", ctypes.c_int32))  # fmt: skip

    call = ctypes.CDLL(str(library))
    for scale in (1.0, 0.5, 0.0123, 3e-5):
        ties = (np.arange(-400, 400) + 0.5) * scale
        values = np.concatenate([ties, rng.normal(0, 200 * scale, 2000), [1e30, -1e30, np.inf, -np.inf, 0.0, -0.0]])
        reals = values.astype(np.float32)
        stored, back = np.zeros(reals.shape, dtype), np.zeros_like(reals)
        rule = Quantization(kind, scale, 3, half_even)
        call.npuc_quantize(reals.ctypes, stored.ctypes, len(reals), ctypes.byref(rule))
        assert np.array_equal(stored, arithmetic.quantize(reals, scale, 3, dtype, half_even))
        call.npuc_dequantize(stored.ctypes, back.ctypes, len(reals), ctypes.byref(rule))
        assert np.array_equal(back, arithmetic.dequantize(stored, scale, 3))


def test_fragments_for_make_and_linker_work_as_documented(tmp_path: Path) -> None:
    for name, content in bundle_files([model("ink"), make_model(mixed_binary(), "calling", {})]).items():
        (tmp_path / name).write_bytes(content)
    command = " ".join([*compiler(), *FLAGS])
    script = (BOARD / "board.ld").read_text().replace(".text :", ".npuc : { INCLUDE npuc.ld } > FLASH\n    .text :")
    (tmp_path / "app.ld").write_text(script)
    (tmp_path / "Makefile").write_text(
        f"include npuc.mk\nSOURCES := $(NPUC_SOURCES) {BOARD}/board.c main.c\n"
        f"app.elf: $(SOURCES)\n\t{command} $(NPUC_CFLAGS) -I{BOARD} $(SOURCES) -nostdlib -static -Wl,--gc-sections "
        "-Wl,-e,reset_handler -Wl,-z,max-page-size=16 -Wl,-T,app.ld -o $@\n"
    )
    (tmp_path / "main.c").write_text(
        '#include "board.h"\n#include "calling.h"\n#include "ink.h"\nnpuc_device npu;\n'
        "static npuc_context context;\n"
        "static uint8_t arena[CALLING_ARENA_BYTES] __attribute__((aligned(CALLING_ARENA_ALIGNMENT)));\n"
        "int main(void)\n{\n    require(npuc_device_init(&npu, NPU_BASE, NPUC_POLL));\n"
        "    require(calling_init(&context, &npu, arena, sizeof arena));\n    require(npuc_run(&context));\n"
        "    return (int)(uintptr_t)ink_program.words & 127;\n}\n"
    )
    subprocess.run(["make"], cwd=tmp_path, check=True, capture_output=True)
    status, text, _ = run(load_image(tmp_path / "app.elf"))
    assert status in (0, 64), text


def write_states(library: ctypes.CDLL, data: bytes, arena_bytes: int) -> tuple[int, bool]:
    """Status of the check, and whether the bytes around the arena are what they were."""

    class Program(ctypes.Structure):
        _fields_ = (("abi", ctypes.c_uint32), ("n_bytes", ctypes.c_uint32), ("arena_bytes", ctypes.c_uint32),
                    ("words", ctypes.c_void_p), ("kernels", ctypes.c_void_p),
                    ("n_kernels", ctypes.c_uint32))  # fmt: skip

    memory = np.zeros(len(data) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + len(data)] = np.frombuffer(data, np.uint8)
    arena = np.full(arena_bytes + 128, 0xA5, np.uint8)
    program = Program(ABI, len(data), arena_bytes, memory.ctypes.data + start)
    fingerprint = int.from_bytes(bytes.fromhex(model("ink").container.fingerprint), "little")
    status = library.npuc_check_program(ctypes.byref(program), DEVICE_VERSION, ctypes.c_uint64(fingerprint))
    if status == 0:
        library.npuc_write_states(ctypes.byref(program), ctypes.c_void_p(arena.ctypes.data + 64))
    return int(status), bool((arena[:64] == 0xA5).all() and (arena[-64:] == 0xA5).all())


def test_damaged_programs_with_right_checksums_write_nothing_outside_the_arena(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    if not (command := shutil.which("cc")):
        leave_out("no C compiler for this machine")
    for name, content in bundle_files([]).items():
        (tmp_path / name).write_bytes(content)
    sources = ["npuc_program.c", "npuc_calls.c", "npuc_hooks.c"]
    subprocess.run([str(command), *WARNINGS, "-O2", "-fsanitize=undefined", "-fno-sanitize-recover", "-shared", "-fPIC",
                    *sources, "-o", "program.so"], cwd=tmp_path, check=True)  # fmt: skip
    library = ctypes.CDLL(str(tmp_path / "program.so"))
    arena_bytes = model("ink").arena_bytes
    states = [StateEntry(1 << 30 | arena_bytes - 64 * i, bytes(range(64))) for i in (1, 2)]
    waiting = ArmCall(0, 0, 0, b"", ((Queue.MAC, 1),), ())
    accepted = 0
    for _ in range(3000):
        sections = [bytearray(encode_states(states)), bytearray(encode_arm_calls([waiting, waiting]))]
        for section in sections:
            for place in rng.integers(0, 40, rng.integers(0, 3)):
                section[place] = rng.choice([0, 1, 64, 127, 128, 255])
        state, calls = map(bytes, sections)
        data = bytearray(variant(model("ink"), "m", state=state, arm_calls=calls).data)
        if rng.integers(2):
            place = int(rng.integers(TABLE_OFFSET, TABLE_OFFSET + 16 * 7))
            data[place] = rng.choice([0, 1, 64, 127, 128, 255])
        crc = zlib.crc32(bytes(data[: TABLE_OFFSET - 4] + data[TABLE_OFFSET:CONSTANTS_OFFSET]))
        data[TABLE_OFFSET - 4 : TABLE_OFFSET] = crc.to_bytes(4, "little")
        status, is_intact = write_states(library, bytes(data), arena_bytes)
        accepted += status == 0
        assert is_intact
    assert 300 < accepted < 2700


def test_docs_list_the_registers() -> None:
    text = (ROOT / "docs" / "firmware.md").read_text()
    for register in REGISTERS:
        assert f"| {register.offset:#04x} | `{register.name}` | {register.access} | {register.doc} |" in text


def test_the_example_is_what_it_says_it_is() -> None:
    code = (BOARD / "main.c").read_text().split("int main(void)")[1].splitlines()
    assert len(code) <= 30
