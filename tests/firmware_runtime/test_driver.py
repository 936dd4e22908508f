"""The driver refuses what it must refuse, with a status for each reason, and goes on afterwards."""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from isa.codec import Instruction, encode
from isa.container import section_offsets
from isa.container_format import CONSTANTS_OFFSET, TABLE_OFFSET, Section
from isa.instructions import Queue
from isa.registers import Fault
from isa.state import StateEntry, encode_states
from npuc.firmware.model_source import Model
from tests.firmware_runtime.build import build, model, run, variant

SRAM = 1 << 30


def patched(data: bytes, offset: int, content: bytes) -> bytes:
    """The program with other bytes in its header and a header checksum to match."""
    changed = bytearray(data)
    changed[offset : offset + len(content)] = content
    crc = zlib.crc32(bytes(changed[: TABLE_OFFSET - 4] + changed[TABLE_OFFSET:CONSTANTS_OFFSET]))
    changed[TABLE_OFFSET - 4 : TABLE_OFFSET] = crc.to_bytes(4, "little")
    return bytes(changed)


def endless() -> bytes:
    """Instructions of which two queues wait for each other."""
    waits = (("wait.mac", Queue.VEC), ("wait.vec", Queue.MAC))
    return b"".join(
        encode(Instruction(mnemonic, {"wait0_queue": queue, "wait0_count": 1})) for mnemonic, queue in waits
    ) + encode(Instruction("end", {}))


def with_state(origin: Model, name: str, section: bytes) -> Model:
    """A model with a state behind everything else in its arena."""
    return replace(variant(origin, name, state=section), arena_bytes=origin.arena_bytes + 64)


@cache
def models() -> Mapping[str, tuple[Model, str]]:
    """Programs that cannot run, and what is said about each."""
    ink = model("ink")
    data = ink.data
    instructions = section_offsets(ink.container)[Section.INSTRUCTIONS]
    flipped = bytearray(data)
    flipped[instructions] ^= 1
    half = len(data) // 128 * 64
    first_length = TABLE_OFFSET + 8
    state = encode_states([StateEntry(SRAM + ink.arena_bytes, bytes(range(1, 9)))])
    outside = encode_states([StateEntry(SRAM + (1 << 29), bytes(8))])
    in_dram = encode_states([StateEntry(2 << 30, bytes(8))])
    return {
        "good": (variant(ink, "good"), "done"),
        "magic": (variant(ink, "magic", b"FLAT" + data[4:]), "this is no program"),
        "container_version": (variant(ink, "container_version", patched(data, 4, b"\x02\0")),
                              "the program has another container version"),
        "isa_minor": (variant(ink, "isa_minor", patched(data, 7, b"\xfe")),
                      "the program needs another instruction set version"),
        "isa_major": (variant(ink, "isa_major", patched(data, 6, b"\x02")),
                      "the program needs another instruction set version"),
        "fingerprint": (variant(ink, "fingerprint", fingerprint="0011223344556677"),
                        "the program was compiled for another NPU"),
        "truncated": (variant(ink, "truncated", data[:-64]), "the program is not complete"),
        "header_only": (variant(ink, "header_only", data[:256]), "the program is not complete"),
        "erased": (variant(ink, "erased", data[:half] + b"\xff" * (len(data) - half)), "the program is damaged"),
        "flipped": (variant(ink, "flipped", bytes(flipped)), "the program is damaged"),
        "header_damage": (variant(ink, "header_damage", data[:30] + b"?" + data[31:]), "the program is damaged"),
        "section_outside": (variant(ink, "section_outside", patched(data, first_length, b"\xff\xff\xff\xff")),
                            "the program is not complete"),
        "arm_calls": (variant(ink, "arm_calls", arm_calls=bytes(64)), "this is no program"),
        "state": (with_state(ink, "state", state), "done"),
        "state_outside": (with_state(ink, "state_outside", outside), "this is no program"),
        "state_in_dram": (with_state(ink, "state_in_dram", in_dram), "the program needs dram"),
        "state_short": (with_state(ink, "state_short", b"\x01\0\0\0"), "this is no program"),
        "state_count": (with_state(ink, "state_count", struct.pack("<2I", 1 << 31, 8) + bytes(8)),
                        "this is no program"),
        "endless": (variant(ink, "endless", instructions=endless()), "done"),
        "small": (replace(variant(ink, "small"), arena_bytes=64), "done"),
    }  # fmt: skip


MAIN = """
#include "board.h"
#include "npuc_registers.h"
%(includes)s

npuc_device npu;
static npuc_context context, other;
static uint8_t arena[16384] __attribute__((aligned(64)));

static void say(const char *what, npuc_status status)
{
    print(what);
    print(": ");
    print(npuc_strerror(status));
    print("\\n");
}

static void say_number(const char *what, uint32_t value)
{
    print_hex(what, (const int8_t *)&value, 4);
}

static void refuse_programs(void)
{
%(inits)s
    npuc_program program = good_program;
    program.abi++;
    say("abi", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    program = good_program;
    program.words++;
    say("misaligned program", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    program.words = 0;
    say("no program", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
}

static void refuse_arguments(void)
{
    say("null device", npuc_device_init(0, NPU_BASE, NPUC_POLL));
    say("null base", npuc_device_init(&npu, 0, NPUC_POLL));
    say("no device", npuc_device_init(&npu, (uintptr_t)arena, NPUC_POLL));
    say("model before device", npuc_model_init(&context, &npu, &good_program, arena, sizeof arena));
    say("run before init", npuc_run(&context));
    say("wait before init", npuc_wait(&context, 0));
    say("reset before init", npuc_reset(&context));
    say("run null", npuc_run(0));
    say("wait null", npuc_wait(0, 0));
    say("reset null", npuc_reset(0));
    say("hook null", npuc_set_layer_hook(0, 0, 0, 0, 0));
    npuc_irq_handler(0);
    npuc_irq_handler(&npu);
    require(npuc_device_init(&npu, NPU_BASE, NPUC_POLL));
    say("null context", npuc_model_init(0, &npu, &good_program, arena, sizeof arena));
    say("null program", npuc_model_init(&context, &npu, 0, arena, sizeof arena));
    say("null arena", npuc_model_init(&context, &npu, &good_program, 0, sizeof arena));
    say("small arena", npuc_model_init(&context, &npu, &good_program, arena, GOOD_ARENA_BYTES - 1));
    say("misaligned arena", npuc_model_init(&context, &npu, &good_program, arena + 4, sizeof arena - 4));
    say("unknown", (npuc_status)999);
}

static void wait_in_vain(npuc_completion completion)
{
    require(npuc_device_init(&npu, NPU_BASE, completion));
    require(good_init(&context, &npu, arena, sizeof arena / 2));
    require(good_init(&other, &npu, arena + sizeof arena / 2, sizeof arena / 2));
    say("wait without run", npuc_wait(&context, NPUC_FOREVER));
    require(npuc_run_async(&context, 0, 0));
    say("second start", npuc_run_async(&context, 0, 0));
    say("start of another", npuc_run(&other));
    say("short wait", npuc_wait(&context, 1));
    say("long wait", npuc_wait(&context, NPUC_FOREVER));
    say("another", npuc_run(&other));
    require(npuc_run_async(&context, 0, 0));
    say("reset while running", npuc_reset(&context));
    say("run after reset", npuc_run(&context));
}

static void use_states(void)
{
    require(npuc_device_init(&npu, NPU_BASE, NPUC_POLL));
    require(state_init(&context, &npu, arena, sizeof arena));
    int8_t *bytes = (int8_t *)arena + STATE_ARENA_BYTES - 64;
    print_hex("state", bytes, 8);
    bytes[0] = 77;
    require(npuc_run(&context));
    print_hex("kept", bytes, 8);
    require(state_reset(&context));
    print_hex("reset", bytes, 8);
}

static void fault(void)
{
    volatile uint32_t *registers = (volatile uint32_t *)NPU_BASE;
    registers[NPUC_REG_CONTROL / 4u] = NPUC_CONTROL_RESET;
    registers[NPUC_REG_CONTROL / 4u] = NPUC_CONTROL_START;
    say_number("doorbell before init", registers[NPUC_REG_STATUS / 4u]);
    say_number("fault", registers[NPUC_REG_FAULT / 4u]);
    registers[NPUC_REG_PROGRAM / 4u] = (uint32_t)(uintptr_t)good_program.words;
    registers[NPUC_REG_SRAM_BASE / 4u] = 0x08000000u;
    registers[NPUC_REG_SRAM_BYTES / 4u] = GOOD_ARENA_BYTES;
    registers[NPUC_REG_CONTROL / 4u] = NPUC_CONTROL_START;
    say_number("arena in flash", registers[NPUC_REG_FAULT / 4u]);
    require(npuc_device_init(&npu, NPU_BASE, NPUC_POLL));
    require(small_init(&context, &npu, arena, sizeof arena));
    say("arena of the program too small", npuc_run(&context));
    say_number("fault", npuc_fault(&context));
    require(endless_init(&context, &npu, arena, sizeof arena));
    say("program that never ends", npuc_run(&context));
    say_number("fault", npuc_fault(&context));
    require(good_init(&context, &npu, arena, sizeof arena));
    say("next run", npuc_run(&context));
}

int main(void)
{
    refuse_arguments();
    refuse_programs();
    wait_in_vain(NPUC_POLL);
    wait_in_vain(NPUC_INTERRUPT);
    use_states();
    fault();
    return 0;
}
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    names = list(models())
    text = MAIN % {
        "includes": "\n".join(f'#include "{name}.h"' for name in names),
        "inits": "\n".join(f'    say("{n}", npuc_model_init(&context, &npu, &{n}_program, arena, sizeof arena));'
                           for n in names),
    }  # fmt: skip
    status, output, machine = run(build(tmp_path_factory.mktemp("driver"), text, [row[0] for row in models().values()]))
    assert status == 0
    assert any("arena of 0 bytes" in report or "program at 0x00000000" in report for report in machine.device.reports)
    return output.splitlines()


@pytest.mark.parametrize("name", models())
def test_a_program_that_cannot_run_has_a_status(name: str, lines: list[str]) -> None:
    assert f"{name}: {models()[name][1]}" in lines


def test_a_mismatch_shows_both_sides(lines: list[str]) -> None:
    place = lines.index("fingerprint: the program was compiled for another NPU")
    fingerprint = bytes.fromhex(model("ink").container.fingerprint).hex(" ")
    assert lines[place - 2 : place] == [f"fingerprint: npu {fingerprint}", "  program 00 11 22 33 44 55 66 77"]


@pytest.mark.parametrize("line", [
    "null device: a pointer is null", "null base: a pointer is null", "no device: there is no NPU at this address",
    "model before device: the device or the model is not initialized",
    "run before init: the device or the model is not initialized",
    "wait before init: the device or the model is not initialized",
    "reset before init: the device or the model is not initialized",
    "run null: a pointer is null", "wait null: a pointer is null", "reset null: a pointer is null",
    "hook null: a pointer is null", "null context: a pointer is null", "null program: a pointer is null",
    "null arena: a pointer is null", "small arena: the arena is too small", "unknown: unknown status",
    "misaligned arena: program or arena is not at a multiple of 64",
    "abi: the model was generated for another release of the driver",
    "misaligned program: program or arena is not at a multiple of 64", "no program: a pointer is null",
])  # fmt: skip
def test_bad_arguments_have_a_status(line: str, lines: list[str]) -> None:
    assert line in lines


def test_busy_timeout_and_reset_leave_a_device_that_works(lines: list[str]) -> None:
    told = [
        "wait without run: nothing was started",
        "second start: the NPU is running a program",
        "start of another: the NPU is running a program",
        "short wait: the program has not ended in time",
        "long wait: done",
        "another: done",
        "reset while running: done",
        "run after reset: done",
    ]
    asleep = [*told]  # a core that sleeps until the interrupt looks at no time
    asleep[3:5] = ["short wait: done", "long wait: nothing was started"]
    place = lines.index(told[0])
    assert lines[place : place + 2 * len(told)] == told + asleep


def test_states_have_their_initial_contents_at_init_and_after_reset(lines: list[str]) -> None:
    assert "state 01 02 03 04 05 06 07 08" in lines
    assert "kept 4d 02 03 04 05 06 07 08" in lines
    assert "reset 01 02 03 04 05 06 07 08" in lines


def test_faults_of_the_device_are_reported_and_the_next_run_succeeds(lines: list[str]) -> None:
    assert lines[-8:] == [
        "doorbell before init 06 00 00 00",
        f"fault {Fault.ADDRESS:02x} 00 00 00",
        f"arena in flash {Fault.ADDRESS:02x} 00 00 00",
        "arena of the program too small: the NPU stopped with a fault",
        f"fault {Fault.ACCESS:02x} 00 00 00",
        "program that never ends: the NPU stopped with a fault",
        f"fault {Fault.PROGRAM:02x} 00 00 00",
        "next run: done",
    ]
