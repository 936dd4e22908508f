"""Firmware that goes wrong ends with a fault that names what it did and where."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.arm_image import ArmImage, load_image
from simulator.arm_machine import FLASH_BASE, ArmMachine
from simulator.errors import SimulatorFault
from tests.firmware_runtime.build import TARGET, build, model, run

CRASHES = {
    "write_outside": ("*(volatile uint32_t *)0x30000000 = 1;", "writes 4 bytes at 0x30000000, which is no memory"),
    "write_behind_sram": ("*(volatile uint8_t *)0x20080000 = 1;", "writes 1 bytes at 0x20080000, which is no memory"),
    "write_flash": ("*(volatile uint32_t *)0x08000000 = 1;", "writes 4 bytes at 0x08000000, which is read-only flash"),
    "read_null": ("(void)*(volatile uint32_t *)zero;", "reads 4 bytes at 0x00000000, which is no memory"),
    "jump_away": ("((handler)0x30000001)();", "executes [0-9]+ bytes at 0x30000000, which is no memory"),
    "overflow": ("volatile uint8_t bytes[8192]; fill(bytes);", "writes [0-9]+ bytes at 0x1fff[0-9a-f]{4}"),
    "spin": ("for (;;) { }", "the firmware has not ended after 2000000 instructions"),
    "sleep": ('for (;;) { __asm__ volatile("wfi"); }', "sleeps, and nothing will wake it"),
    "supervisor": ('__asm__ volatile("svc 0");', "runs into svc"),
    "undefined": ('__asm__ volatile("udf 0");', "executes an instruction that the core does not know"),
    "breakpoint": ('__asm__ volatile("bkpt 1");', "runs into a breakpoint"),
    "unknown_call": ('__asm__ volatile("movs r0, #99\\n bkpt 0xab" ::: "r0");', "semihosting call 0x63 is not known"),
    "wild_text": ("print((const char *)0x30000000);", "Invalid memory read"),
    "unknown_register": ("registers[100] = 1;", "writes offset 0x190, where there is no register of the NPU"),
    "write_only": ("(void)registers[NPUC_REG_CONTROL / 4u];", "reads register CONTROL of the NPU"),
    "read_only": ("registers[NPUC_REG_ID / 4u] = 1;", "writes register ID of the NPU"),
    "byte_of_register": ("*(volatile uint8_t *)NPU_BASE = 1;", "accesses 1 bytes of registers at offset 0x0"),
    "stray_return": ('__asm__ volatile("bx %0" :: "r"(0xfffffff9u));', "returns from an interrupt outside of one"),
}  # fmt: skip

MAIN = """
#include "board.h"
#include "npuc_registers.h"

typedef void (*handler)(void);
npuc_device npu;
static volatile uint32_t *const registers = (volatile uint32_t *)NPU_BASE;
volatile uint32_t zero;

static void fill(volatile uint8_t *bytes)
{
    for (int i = 8191; i >= 0; i--) {
        bytes[i] = 0;
    }
}

%(functions)s

static const volatile handler crashes[] = {%(names)s};

int main(void)
{
    (void)registers;
    if (zero != 0) {
        crashes[zero]();
    }
    return 42;
}
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> ArmImage:
    functions = (f"__attribute__((noinline)) static void {name}(void)\n{{\n    {code}\n}}\n"
                 for name, (code, _) in CRASHES.items())  # fmt: skip
    text = MAIN % {"functions": "\n".join(functions), "names": ", ".join(CRASHES)}
    return build(tmp_path_factory.mktemp("faults"), text, [model("ink")])


def starting_at(image: ArmImage, name: str) -> ArmImage:
    """The image with a function as its entry."""
    (address,) = (address for address, _, function in image.functions if function == name)
    (vectors, data), *rest = sorted(image.segments)
    assert vectors == FLASH_BASE
    return replace(image, segments=((vectors, data[:4] + (address | 1).to_bytes(4, "little") + data[8:]), *rest))


def test_exit_status_is_that_of_the_firmware(image: ArmImage) -> None:
    assert run(image)[:2] == (42, "")


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_names_what_happened_and_where(name: str, image: ArmImage) -> None:
    with pytest.raises(SimulatorFault, match=CRASHES[name][1]) as fault:
        run(starting_at(image, name), 2_000_000)
    places = {"overflow": "(overflow|fill)", "wild_text": "(print|semihost|wild_text)"}
    if name not in ("jump_away", "stray_return"):
        assert re.search(rf"at 0x[0-9a-f]{{8}} in {places.get(name, name)}", str(fault.value))


def test_files_that_are_no_firmware_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.elf"
    for content in (b"", b"\x7fELF", b"\x7fELF\1\1\1" + bytes(57), b"text" * 100):
        path.write_bytes(content)
        with pytest.raises(SimulatorFault, match="ELF file"):
            load_image(path)


@pytest.mark.parametrize(("segments", "message"), [
    ((), "no vector table at 0x08000000"),
    (((0x1000, b"1234"),), "4 bytes at 0x00001000 are no memory"),
    (((FLASH_BASE, bytes(8)),), "stack 0x00000000, entry 0x00000000"),
])  # fmt: skip
def test_images_that_do_not_fit_the_machine_are_refused(segments: tuple[tuple[int, bytes], ...], message: str) -> None:
    with pytest.raises(SimulatorFault, match=message):
        ArmMachine(ArmImage(Path("app.elf"), segments, ()), TARGET, lambda text: None)
