"""The kernels on emulated Arm cores: the bytes of the reference, and a named fault for what a core must not do."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from unicorn.arm_const import UC_ARM_REG_R1
from unicorn.unicorn_const import UC_HOOK_CODE
from unicorn.unicorn_py3.unicorn import UcError

from npuc.arm.kernel_spec import COPY_AXES, FLASH, KERNEL, SRAM, encode_parameters
from npuc.firmware.graph_runner import lower_to_kernels, run_program
from npuc.firmware.toolchain import TARGETS, ToolchainError, build_kernels, find_compiler
from npuc.graph.graph import evaluate
from npuc.importer.tflite import import_tflite
from simulator import arm_kernels
from simulator.arm_kernels import CORES, ArmKernels, emulator
from simulator.errors import SimulatorFault
from simulator.shared_memory import is_shared, shared_bytes
from tests.firmware.operators import FAMILIES, Case, cases, check
from tests.shared_data import leave_out, shared_file

N_CASES = int(os.environ.get("NPUC_KERNEL_CASES", "200"))
"""Of all families together."""


@cache
def image(core: str) -> Path:
    """The kernels for a core; the test is left out where no compiler can make them."""
    try:
        find_compiler(TARGETS[core])
    except ToolchainError as failure:
        leave_out(failure.message)
    return build_kernels(core)


@cache
def backend(core: str) -> ArmKernels:
    return ArmKernels(image(core), core)


@pytest.mark.parametrize("core", CORES)
def test_random_operators_equal_the_reference(core: str) -> None:
    kernels = backend(core)

    @settings(max_examples=N_CASES)
    @given(cases(tuple(FAMILIES)))
    def run(case: Case) -> None:
        check(case, kernels)

    run()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", ["mlperf_resnet8", "mlperf_kws", "mlperf_ad", "micro_speech"])
def test_every_layer_of_a_network_equals_the_reference(name: str, core: str) -> None:
    kernels = backend(core)
    graph = import_tflite(shared_file("models", "tflite", f"{name}.tflite").read_bytes(), name)
    values = [output for node in graph.nodes for output in node.outputs]
    samples = np.load(shared_file("golden", f"{name}.npz"))
    feeds = {value: samples[f"in{i}_s0"] for i, value in enumerate(graph.inputs)}
    expected = evaluate(graph, feeds, values)
    got = run_program(lower_to_kernels(graph), feeds, kernels, values)
    assert [value for value in values if not np.array_equal(got[value], expected[value])] == []


@pytest.mark.parametrize("core", CORES)
def test_kernels_work_on_shared_memory_itself(core: str) -> None:
    """Nothing is copied: what numpy writes between two calls is seen, and so is what the kernels write."""
    kernels, sram = backend(core), shared_bytes(5000)
    _, flash = memories()
    for value in (1, 2):
        sram[0] = value
        assert kernels.run([copy_record((SRAM, 0), (SRAM, 4500), 2)], sram, flash) == 1
        assert sram[4500] == value
    assert kernels.run([copy_record((FLASH, 7), (SRAM, 0), 1)], sram, flash) == 1
    assert sram[0] == 7
    other = memories()[0]
    assert kernels.run([copy_record((FLASH, 7), (SRAM, 1), 1)], other, flash) == 1
    assert (other[1], sram[1]) == (7, 0)


@pytest.mark.parametrize("core", CORES)
def test_instructions_of_a_call_are_those_that_a_hook_counts(core: str) -> None:
    kernels, call = ArmKernels(image(core), core), copy_record((FLASH, 0), (SRAM, 0), 1501)
    sram, flash = memories()
    found = kernels.n_instructions(call, sram, flash)
    assert not sram.any()
    counted = []
    kernels._uc.ctl_flush_tb()  # code that was translated before knows no hook
    kernels._uc.hook_add(UC_HOOK_CODE, lambda uc, address, size, data: counted.append(address))
    kernels.run([call], sram, flash)
    assert found == len(counted) > 100


def test_pages_are_shared_only_where_nothing_else_lies_in_them() -> None:
    pages = shared_bytes(10_000)
    assert is_shared(pages)
    assert is_shared(pages[4096:])
    assert not is_shared(pages[1:])
    assert not is_shared(np.zeros(1 << 20, np.uint8))
    assert not is_shared(np.zeros(1 << 20, np.uint8)[-np.zeros(1, np.uint8).ctypes.data % 4096 :])


def test_constants_that_change_are_seen() -> None:
    sram, flash = memories()
    for value in (1, 2):
        flash[0] = value
        assert backend("cortex-m33").run([copy_record((FLASH, 0), (SRAM, 0), 1)], sram, flash) == 1
        assert sram[0] == value


def copy_record(source: tuple[int, int], destination: tuple[int, int], n_bytes: int) -> tuple[int, int, bytes]:
    strides = (0,) * (COPY_AXES - 1) + (1,)
    record = encode_parameters(KERNEL["copy"], {
        "source": source, "destination": destination, "size": (1,) * (COPY_AXES - 1) + (n_bytes,),
        "source_stride": strides, "destination_stride": strides,
    })  # fmt: skip
    return KERNEL["copy"].kernel_id, 1, record


def memories() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(4096, np.uint8), np.arange(4096).astype(np.uint8)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(("source", "destination", "fault"), [
    ((FLASH, 0), (SRAM, 4000), "WRITE_UNMAPPED"),       # beyond the end of the SRAM
    ((FLASH, 4000), (SRAM, 0), "READ_UNMAPPED"),        # beyond the end of the flash
    ((FLASH, 0), (SRAM, -0x19000000), "WRITE_PROT"),    # into the flash
    ((FLASH, 0), (SRAM, -0x20FF0000), "WRITE_PROT"),    # into the image
    ((FLASH, 0), (SRAM, -0x21000000), "WRITE_UNMAPPED"),  # through a null pointer
])  # fmt: skip
def test_a_stray_access_is_a_fault_with_the_place(
    core: str, source: tuple[int, int], destination: tuple[int, int], fault: str
) -> None:
    kernels = backend(core)
    with pytest.raises(SimulatorFault, match=rf"{core} running .*{fault}.* at 0x000\w+ in (npuc_copy|copy_run)"):
        kernels.run([copy_record(source, destination, 200)], *memories())
    sram, flash = memories()
    assert kernels.run([copy_record((FLASH, 0), (SRAM, 0), 200)], sram, flash) == 1
    assert np.array_equal(sram[:201], [*flash[:200], 0])


@pytest.mark.parametrize("core", CORES)
def test_a_kernel_that_does_not_end_is_a_fault(core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = backend(core)
    monkeypatch.setattr(arm_kernels, "MAX_INSTRUCTIONS", 500)
    with pytest.raises(SimulatorFault, match="no end after 500 instructions, at 0x000"):
        kernels.run([copy_record((FLASH, 0), (SRAM, 0), 4000)], *memories())


@pytest.mark.parametrize("core", CORES)
def test_a_refused_record_stops_the_run_there(core: str) -> None:
    kernels = backend(core)
    good, bad = copy_record((FLASH, 1), (SRAM, 0), 1), copy_record((FLASH, 1), (FLASH, 0), 1)
    sram, flash = memories()
    assert kernels.run([good, bad, good], sram, flash) == 1
    assert sram[0] == 1


def test_a_record_the_image_does_not_know_is_a_fault() -> None:
    with pytest.raises(SimulatorFault, match="no kernel 10 of version 2 with 4 bytes"):
        backend("cortex-m4").run([(10, 2, bytes(4))], *memories())


def test_the_stack_overflows_into_unmapped_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = backend("cortex-m4")
    monkeypatch.setattr(arm_kernels, "STACK_BYTES", 8)
    with pytest.raises(SimulatorFault, match="WRITE_UNMAPPED"):
        kernels.run([copy_record((FLASH, 0), (SRAM, 0), 8)], *memories())


def test_other_files_are_no_image(tmp_path: Path) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(b"not an image")
    with pytest.raises(SimulatorFault, match="not an ELF file"):
        ArmKernels(path, "cortex-m4")


def test_an_image_without_the_table_is_refused(tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.elf"
    renamed.write_bytes(image("cortex-m4").read_bytes().replace(b"npuc_kernel_table", b"some_other_symbol"))
    with pytest.raises(SimulatorFault, match="has no npuc_kernel_table"):
        ArmKernels(renamed, "cortex-m4")


@pytest.mark.parametrize(("core", "is_armv8"), [("cortex-m4", False), ("cortex-m7", False), ("cortex-m33", True)])
def test_only_the_cortex_m33_knows_the_instructions_of_armv8(core: str, is_armv8: bool) -> None:
    """M-class mode ignores the model that is asked for, so the older cores must not use it."""
    uc = emulator(CORES[core])
    uc.mem_map(0x10000, 0x1000)
    uc.mem_write(0x10000, bytes.fromhex("d1e8af0f"))  # lda r0, [r1]: load-acquire
    uc.reg_write(UC_ARM_REG_R1, 0x10000)
    if is_armv8:
        uc.emu_start(0x10001, 0x10004, count=1)
        return
    with pytest.raises(UcError, match="INSN_INVALID"):
        uc.emu_start(0x10001, 0x10004, count=1)
