"""What the emulator does otherwise than a core: each of these the harness is built around, so a change must be seen."""

import ast
from pathlib import Path
from typing import Any

import pytest
from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_SP,
    UC_CPU_ARM_CORTEX_M3,
)
from unicorn.unicorn_const import (
    UC_ARCH_ARM,
    UC_ERR_INSN_INVALID,
    UC_ERR_READ_UNMAPPED,
    UC_ERR_WRITE_PROT,
    UC_ERR_WRITE_UNMAPPED,
    UC_HOOK_INTR,
    UC_MODE_THUMB,
    UC_PROT_EXEC,
    UC_PROT_READ,
)
from unicorn.unicorn_py3.unicorn import UcError

from simulator import arm_kernels
from simulator.arm_kernels import CORES, Core, emulator
from simulator.shared_memory import shared_bytes

CODE, DATA, DEVICE, NOWHERE = 0x10000, 0x20000, 0x40000000, 0xFFFFFFFE
CORTEX_M = ["cortex-m4", "cortex-m7", "cortex-m33"]


def machine(core: Core, code: str) -> Any:
    """A core with these bytes of code, a page of data, and R1 at the data."""
    uc = emulator(core)
    uc.mem_map(CODE, 0x1000, UC_PROT_READ | UC_PROT_EXEC)
    uc.mem_map(DATA, 0x1000)
    uc.mem_write(CODE, bytes.fromhex(code))
    uc.reg_write(UC_ARM_REG_R1, DATA)
    uc.reg_write(UC_ARM_REG_SP, DATA + 0x1000)
    return uc


def error(uc: Any, n_instructions: int = 1) -> int:
    """The number of the error that running ends with."""
    with pytest.raises(UcError) as failure:
        uc.emu_start(CODE | 1, NOWHERE, count=n_instructions)
    return int(failure.value.errno)


def test_a_model_is_ignored_in_m_class_mode() -> None:
    """M-class mode is always a Cortex-M33: load-acquire is known though a Cortex-M4 was asked for."""
    core, older = CORES["cortex-m33"], CORES["cortex-m4"]
    asked = Core(core.architecture, core.mode, older.model, *list(vars(core).values())[3:])
    uc = machine(asked, "d1e8af0f")  # lda r0, [r1]
    uc.emu_start(CODE | 1, NOWHERE, count=1)
    assert error(machine(older, "d1e8af0f")) == UC_ERR_INSN_INVALID


@pytest.mark.parametrize("core", CORTEX_M)
def test_vector_instructions_of_a_cortex_m55_are_unknown(core: str) -> None:
    """So there is no such core, and kernels are not built for it."""
    assert error(machine(CORES[core], "02ef4008")) == UC_ERR_INSN_INVALID  # vadd.i8 q0, q1, q0


@pytest.mark.parametrize("core", CORTEX_M)
def test_the_floating_point_unit_is_on_without_being_switched_on(core: str) -> None:
    """Firmware that forgets CPACR runs here and faults on a board."""
    uc = machine(CORES[core], "00ee100a")  # vmov s0, r0
    uc.emu_start(CODE | 1, NOWHERE, count=1)
    assert uc.reg_read(UC_ARM_REG_PC) == CODE + 4


def test_a_cortex_m3_has_instructions_of_a_cortex_m4() -> None:
    """So code for a Cortex-M3 cannot be tested; there is no such core."""
    core = CORES["cortex-m4"]
    m3 = Core(UC_ARCH_ARM, UC_MODE_THUMB, UC_CPU_ARM_CORTEX_M3, *list(vars(core).values())[3:])
    machine(m3, "21fb0100").emu_start(CODE | 1, NOWHERE, count=1)  # smlad r0, r1, r1, r0
    assert "cortex-m3" not in CORES


@pytest.mark.parametrize("core", CORTEX_M)
def test_sleep_returns_with_the_counter_behind_it(core: str) -> None:
    uc = machine(CORES[core], "30bf" + 4 * "00bf")  # wfi; nop ...
    uc.emu_start(CODE | 1, NOWHERE, count=4)
    assert uc.reg_read(UC_ARM_REG_PC) == CODE + 2


@pytest.mark.parametrize("core", CORTEX_M)
@pytest.mark.parametrize(("code", "numbers"), [
    ("00be", {"cortex-m4": 7, "cortex-m7": 7, "cortex-m33": 7}),  # bkpt
    ("7047", {"cortex-m4": 3, "cortex-m7": 3, "cortex-m33": 8}),  # bx lr, an exception return
])  # fmt: skip
def test_numbers_of_exceptions(core: str, code: str, numbers: dict[str, int]) -> None:
    seen: list[int] = []
    uc = machine(CORES[core], code + 4 * "00bf")
    uc.reg_write(UC_ARM_REG_LR, 0xFFFFFFF9)

    def note(uc: Any, number: int, data: object) -> None:
        seen.append(number)
        uc.emu_stop()

    uc.hook_add(UC_HOOK_INTR, note)
    uc.emu_start(CODE | 1, NOWHERE, count=4)
    assert seen == [numbers[core]]
    assert uc.reg_read(UC_ARM_REG_PC) >= 0xFFFFFF00 or code == "00be"


def device(uc: Any, on_write: Any) -> None:
    uc.mmio_map(DEVICE, 0x1000, lambda uc, offset, size, data: 0, None, on_write, None)
    uc.reg_write(UC_ARM_REG_R1, DEVICE)


def test_stopping_in_a_write_to_a_device_repeats_the_write() -> None:
    """So a doorbell must not stop the core: it would ring for ever."""
    rings: list[int] = []

    def ring(uc: Any, offset: int, size: int, value: int, data: object) -> None:
        rings.append(value)
        uc.emu_stop()

    uc = machine(CORES["cortex-m33"], "0860" + 4 * "00bf")  # str r0, [r1]; nop ...
    device(uc, ring)
    for _ in range(2):
        uc.emu_start(CODE | 1, NOWHERE, count=3)
        assert uc.reg_read(UC_ARM_REG_PC) == CODE
    assert len(rings) == 2


def test_an_exception_in_a_device_leaves_emulation(capfd: pytest.CaptureFixture[str]) -> None:
    """With a traceback on stderr: so devices keep what goes wrong, and the harness raises it."""

    def fail(uc: Any, offset: int, size: int, value: int, data: object) -> None:
        raise KeyError(value)

    uc = machine(CORES["cortex-m33"], "0860" + 4 * "00bf")
    device(uc, fail)
    with pytest.raises(KeyError):
        uc.emu_start(CODE | 1, NOWHERE, count=3)
    capfd.readouterr()


@pytest.mark.parametrize("core", CORTEX_M)
@pytest.mark.parametrize("is_shared", [False, True])
def test_patched_code_runs_stale_until_translations_are_flushed(core: str, is_shared: bool) -> None:
    """So images are loaded before anything runs."""
    uc, pages, seen = machine(CORES[core], ""), shared_bytes(4096), []
    pages[:4] = list(bytes.fromhex("01207047"))  # movs r0, #1; bx lr
    if is_shared:
        uc.mem_unmap(CODE, 4096)
        uc.mem_map_ptr(CODE, 4096, UC_PROT_READ | UC_PROT_EXEC, pages.ctypes.data)
    for value in (1, 2, 3):
        pages[0] = value
        if not is_shared:
            uc.mem_write(CODE, pages.tobytes())
        if value == 3:
            uc.ctl_flush_tb()
        uc.reg_write(UC_ARM_REG_LR, DATA | 1)
        uc.emu_start(CODE | 1, DATA, count=10)
        seen.append(uc.reg_read(UC_ARM_REG_R0))
    assert seen == [1, 1, 3]


@pytest.mark.parametrize(("address", "code", "fault"), [
    (0x30000000, "0868", UC_ERR_READ_UNMAPPED),    # ldr r0, [r1]
    (0x30000000, "0860", UC_ERR_WRITE_UNMAPPED),   # str r0, [r1]
    (CODE, "0860", UC_ERR_WRITE_PROT),             # into read-only memory
    (DATA, "00b5", UC_ERR_WRITE_UNMAPPED),         # push {lr} at the bottom of the stack
])  # fmt: skip
@pytest.mark.parametrize("core", CORTEX_M)
def test_stray_accesses_are_errors(core: str, address: int, code: str, fault: int) -> None:
    uc = machine(CORES[core], code)
    uc.reg_write(UC_ARM_REG_R1, address)
    uc.reg_write(UC_ARM_REG_SP, address)
    assert error(uc) == fault


def test_every_start_has_a_count() -> None:
    """A start with a count after one without hangs for ever."""
    nodes = [
        node
        for path in sorted(Path(arm_kernels.__file__).parent.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    ]
    starts = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "emu_start"
    ]
    assert len(starts) >= 2
    assert all(any(keyword.arg == "count" for keyword in start.keywords) for start in starts)
