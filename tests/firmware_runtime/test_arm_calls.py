"""Programs with Arm calls as firmware: the simulator's bytes in every completion mode, layers, statuses, reset."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from isa.arm_calls import decode_arm_calls, encode_arm_calls
from isa.container import CONSTANTS_OFFSET, read_container, write_container
from isa.instructions import Queue
from isa.registers import BY_NAME, NO_WAIT, Interrupt, Status
from npuc.compiler import Options, compile_model, import_model
from npuc.firmware.bundle import FirmwareError, make_model
from npuc.firmware.host import host_kernels
from npuc.firmware.kernel_source import kernel_files
from npuc.firmware.model_source import Layer, Model
from npuc.firmware.toolchain import kernel_sources
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize
from simulator.device import NpuDevice
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.memory import Bytes
from simulator.program import load
from tests.core.test_partition import between_convolutions, reversal
from tests.firmware_runtime.build import TARGET, build, model, run
from tests.shared_data import shared_file
from tests.simulator.arm import IO, N, X, Y, mixed_binary, mixed_output, store, table_call
from tests.simulator.assemble import Assembly

N_SAMPLES = 20
MODES = ("poll", "sleep", "callback")


@cache
def mixed() -> Model:
    """Calls before, between and beside instructions; a copy comes last. Its calls are rows 4 to 6."""
    return make_model(mixed_binary(), "mixed", {1: "first", 2: "last", 4: "lookup", 5: "beside", 6: "again"})


def trailing_binary() -> bytes:
    """The last of the program is a call, which waits for a copy."""
    assembly = Assembly()
    table = CONSTANTS_OFFSET + len(assembly.constants)
    assembly.constant(bytes((i * 7 + 3) % 256 for i in range(256)))
    assembly.rows.append(store(X, 0x400))
    calls = table_call(0x400, 0x500, table, (Queue.DMA_OUT, 1)), table_call(0x500, Y, table)
    return assembly.container(IO, arm_calls=encode_arm_calls(calls), metadata={"sram_peak_bytes": Y + N})


def compiled_binary(name: str) -> bytes:
    """Convolutions around a node that the NPU has no instruction for; a whole network that ends in float kernels."""
    if name == "lenet":
        graph = import_model(shared_file("models", "tflite", "lenet300.tflite"), {})
    elif name == "reversed":
        graph = between_convolutions(reversal((1, 5, 8, 8), 2))
    else:
        graph = between_convolutions(Dequantize(0.05, 3), LogSoftmax(), Quantize(0.05, 3))
    return compile_model(graph, None, Options(TARGET)).program


@cache
def programs() -> dict[str, bytes]:
    return {
        "mixed": mixed_binary(),
        "trailing": trailing_binary(),
        "reversed": compiled_binary("reversed"),
        "floats": compiled_binary("floats"),
        "lenet": compiled_binary("lenet"),
    }


MAIN = """
#include "board.h"
#include "ink.h"
%(includes)s

enum mode { POLL, SLEEP, CALLBACK, MODES };

npuc_device npu;
static npuc_context contexts[%(n)d], ink;
static uint8_t arena[262144] __attribute__((aligned(64))), ink_arena[16384] __attribute__((aligned(64)));
static volatile int is_done;

/* Models share one arena: all of them fill their inputs, run, and have their outputs read, one after the other. */
static const struct {
    const char *name;
    const npuc_program *program;
    uint32_t input, input_bytes, output, output_bytes;
} models[%(n)d] = {
%(rows)s
};

static void on_done(npuc_context *context, npuc_status status, void *user)
{
    (void)context, (void)user;
    require(status);
    is_done++;
}

static void infer(npuc_context *model, enum mode mode)
{
    if (mode != CALLBACK) {
        require(npuc_run(model));
        return;
    }
    is_done = 0;
    npuc_status status;
    require(npuc_run_async(model, on_done, 0));
    while ((status = npuc_wait(model, 0)) == NPUC_ERROR_TIMEOUT) {
        /* The core is free for other work between calls. */
    }
    require(status);
    require(is_done == 1 ? NPUC_OK : NPUC_ERROR_IDLE);
}

int main(void)
{
    for (enum mode mode = POLL; mode < MODES; mode++) {
        uint32_t random = 1;
        require(npuc_device_init(&npu, NPU_BASE, mode == POLL ? NPUC_POLL : NPUC_INTERRUPT));
        require(ink_init(&ink, &npu, ink_arena, sizeof ink_arena));
        for (uint32_t m = 0; m < %(n)du; m++) {
            require(npuc_model_init(&contexts[m], &npu, models[m].program, arena, sizeof arena));
        }
        for (uint32_t sample = 0; sample < %(samples)du; sample++) {
            for (uint32_t m = 0; m < %(n)du; m++) {
                for (uint32_t i = 0; i < models[m].input_bytes; i++) {
                    random = random * 1664525u + 1013904223u;
                    arena[models[m].input + i] = (uint8_t)(random >> 24);
                }
                infer(&contexts[m], mode);
                print_hex(models[m].name, (const int8_t *)arena + models[m].output, models[m].output_bytes);
            }
            infer(&ink, mode);
        }
    }
    return 0;
}
"""


def main_text(names: Iterable[str]) -> str:
    rows = []
    for name in names:
        loaded = read_container(programs()[name])
        sizes = [(entry.address & 0x3FFFFFFF, entry.n_bytes) for entry in loaded.io]
        (x, y) = sizes
        rows.append(f'    {{"{name}", &{name}_program, {x[0]}u, {x[1]}u, {y[0]}u, {y[1]}u}},')
    includes = "\n".join(f'#include "{name}.h"' for name in names)
    return MAIN % {"includes": includes, "n": len(rows), "rows": "\n".join(rows), "samples": N_SAMPLES}


def expected(names: Iterable[str]) -> Iterator[str]:
    """What MAIN prints in one mode, computed on the simulator."""
    machines = {name: Machine(load(programs()[name]), kernels=host_kernels()) for name in names}
    random = 1
    for _ in range(N_SAMPLES):
        for name, machine in machines.items():
            ((key, entry),) = machine.inputs.items()
            words = []
            for _ in range(entry.n_bytes):
                random = (random * 1664525 + 1013904223) % (1 << 32)
                words.append(random >> 24)
            (output,) = machine.run({key: np.array(words, np.uint8).view(entry.dtype).reshape(entry.shape)}).values()
            yield f"{name} {output.tobytes().hex(' ')}"


def test_outputs_equal_the_simulators_in_every_completion_mode(tmp_path: Path) -> None:
    models = [make_model(data, name, {}) for name, data in programs().items()]
    status, text, machine = run(build(tmp_path, main_text(programs()), [*models, model("ink")]))
    assert text.splitlines() == [*expected(programs())] * len(MODES)
    assert status == 0
    assert machine.device.n_runs == (len(models) + 1) * N_SAMPLES * len(MODES)
    assert machine.device.reports == []


LAYERS = """
#include "board.h"
#include "mixed.h"

npuc_device npu;
static npuc_context context;
static uint8_t arena[MIXED_ARENA_BYTES] __attribute__((aligned(64)));
static uint32_t last;

static void on_layer(const npuc_layer *layer, uint32_t cycles, void *user)
{
    (void)user;
    print(layer->name);
    print(cycles >= last ? " later\\n" : " EARLIER\\n");
    last = cycles;
}

int main(void)
{
    for (int mode = NPUC_POLL; mode <= NPUC_INTERRUPT; mode++) {
        require(npuc_device_init(&npu, NPU_BASE, (npuc_completion)mode));
        require(mixed_init(&context, &npu, arena, sizeof arena));
        require(npuc_set_layer_hook(&context, mixed_layers, MIXED_N_LAYERS, on_layer, 0));
        last = 0;
        require(npuc_run(&context));
        print(npuc_cycles(&context) >= last ? "end\\n" : "LATE\\n");
        require(npuc_set_layer_hook(&context, 0, 0, 0, 0));
        require(npuc_run(&context));
    }
    return 0;
}
"""


def test_layers_of_instructions_and_calls_end_in_the_order_of_the_program(tmp_path: Path) -> None:
    names = ["lookup", "beside", "first", "again", "last"]
    arm, out = int(Queue.ARM), int(Queue.DMA_OUT)
    ends = [(arm, 1, 1), (arm, 2, 2), (out, 1, 2), (arm, 3, 3), (out, 2, 3)]
    assert mixed().layers == tuple(Layer(name, *end) for name, end in zip(names, ends, strict=True))
    status, text, _ = run(build(tmp_path, LAYERS, [mixed()]))
    assert text.splitlines() == [*(f"{name} later" for name in names), "end"] * 2
    assert status == 0


FAILURES = """
#include "board.h"
#include "mixed.h"
%(includes)s

npuc_device npu;
static npuc_context context;
static uint8_t arena[16384] __attribute__((aligned(64)));

static void say(const char *what, npuc_status status)
{
    print(what);
    print(": ");
    print(npuc_strerror(status));
    print("\\n");
}

static int32_t refuse(const void *parameters, uint8_t *sram, const uint8_t *flash)
{
    (void)parameters, (void)sram, (void)flash;
    return NPUC_KERNEL_BAD_PARAMETERS;
}

static void other_kernels(void)
{
    npuc_kernel_entry entry = mixed_program.kernels[0];
    npuc_program program = mixed_program;
    program.n_kernels = 0;
    say("no kernel", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    program.n_kernels = 1;
    program.kernels = &entry;
    entry.version = 9;
    say("other version", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    entry = mixed_program.kernels[0];
    entry.parameter_bytes = 12;
    say("other parameters", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    entry = mixed_program.kernels[0];
    entry.run = refuse;
    say("init", npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    say("refused", npuc_run(&context));
    say("refused again", npuc_run(&context));
}

static void infer(void)
{
    for (uint32_t i = 0; i < MIXED_INPUT_X_BYTES; i++) {
        mixed_input_x(arena)[i] = (uint8_t)(3u * i);
    }
    say("run", npuc_run(&context));
    print_hex("y", (const int8_t *)mixed_output_y(arena), MIXED_OUTPUT_Y_BYTES);
}

int main(void)
{
    for (int mode = NPUC_POLL; mode <= NPUC_INTERRUPT; mode++) {
        require(npuc_device_init(&npu, NPU_BASE, (npuc_completion)mode));
        other_kernels();
        require(mixed_init(&context, &npu, arena, sizeof arena));
        infer();
        require(npuc_run_async(&context, 0, 0));
        say("after a call", npuc_wait(&context, 0));
        say("after another", npuc_wait(&context, 0));
        say("reset", npuc_reset(&context));
        infer();
        require(npuc_run_async(&context, 0, 0));
        say("timeout", npuc_wait(&context, 1));
        say("and on", npuc_wait(&context, NPUC_FOREVER));
    }
%(inits)s
    return 0;
}
"""


@cache
def malformed() -> dict[str, Model]:
    """Programs whose section is none, each in its own way."""
    calls = decode_arm_calls(mixed().container.arm_calls)
    section = encode_arm_calls(calls)
    first = replace(calls[0], ranges=(replace(calls[0].ranges[0], n_bytes=1 << 20),))
    sections = {
        "short": section[:12],
        "count": b"\xff\xff\xff\xff" + section[4:],
        "ranges": section[:4] + b"\x07" + section[5:],
        "unused": encode_arm_calls(calls[:1])[:4] + section[4:],
        "parameters": section[:24] + b"\xff\xff" + section[26:],
        "unaligned": section[:24] + b"\x04" + section[25:],
        "queue": section[: 16 + 16] + b"\x04" + section[16 + 17 :],
        "outside": encode_arm_calls([first, *calls[1:]]),
    }
    return {
        name: replace(mixed(), name=name, layers=(), data=write_container(replace(mixed().container, arm_calls=data)))
        for name, data in sections.items()
    }


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    call = '    say("%s", npuc_model_init(&context, &npu, &%s_program, arena, sizeof arena));'
    text = FAILURES % {
        "includes": "\n".join(f'#include "{name}.h"' for name in malformed()),
        "inits": "\n".join(call % (name, name) for name in malformed()),
    }
    status, output, _ = run(build(tmp_path_factory.mktemp("calls"), text, [mixed(), *malformed().values()]))
    assert status == 0
    return output.splitlines()


@pytest.mark.parametrize("name", malformed())
def test_a_malformed_section_is_found_at_init(name: str, lines: list[str]) -> None:
    assert f"{name}: this is no program" in lines


def test_a_kernel_that_is_missing_or_another_shows_both_sides(lines: list[str]) -> None:
    def number(value: int) -> str:
        return value.to_bytes(8, "little").hex(" ")

    assert lines[:9] == [
        f"kernel: npu {number(0)}", f"  program {number(4)}",
        "no kernel: the firmware lacks a kernel that the program calls",
        f"kernel << 16 | version: npu {number(4 << 16 | 9)}", f"  program {number(4 << 16 | 1)}",
        "other version: the firmware has another version of a kernel that the program calls",
        f"bytes of kernel parameters: npu {number(12)}", f"  program {number(mixed_parameters())}",
        "other parameters: the firmware has another version of a kernel that the program calls",
    ]  # fmt: skip


def mixed_parameters() -> int:
    return len(decode_arm_calls(mixed().container.arm_calls)[0].parameters)


def test_refused_parameters_timeout_and_reset_leave_a_device_that_works(lines: list[str]) -> None:
    x = (3 * np.arange(N)).astype(np.uint8)
    told = [
        "init: done",
        "refused: a kernel refused its parameters",
        "refused again: a kernel refused its parameters",
        "run: done",
        f"y {mixed_output(x).tobytes().hex(' ')}",
        "after a call: the program has not ended in time",
        "after another: the program has not ended in time",
        "reset: done",
        "run: done",
        f"y {mixed_output(x).tobytes().hex(' ')}",
        "timeout: the program has not ended in time",
        "and on: done",
    ]
    assert lines[9:21] == told
    assert lines[30:42] == told


def test_kernels_that_the_release_does_not_have_are_refused() -> None:
    container = read_container(mixed_binary())
    calls = [replace(call, version=7) for call in decode_arm_calls(container.arm_calls)]
    changed = write_container(replace(container, arm_calls=encode_arm_calls(calls)))
    with pytest.raises(FirmwareError, match="kernel 4 of version 7, which this release does not have"):
        make_model(changed, "m", {})


def test_only_the_kernels_of_a_model_and_what_they_use_are_written() -> None:
    assert [name for name in kernel_files(["table"]) if name.endswith(".c")] == ["npuc_kernel_elementwise.c"]
    assert [name for name in kernel_files([]) if name.endswith(".c")] == []
    everything = {f"npuc_kernel_{path.name}" for path in kernel_sources() if path.name != "table.c"}
    assert {name for name in kernel_files() if name.endswith(".c")} == everything


class Registers:
    """The device alone, with the program in flash at 0 and an arena at 0x100000."""

    def __init__(self, data: bytes) -> None:
        self.flash = np.frombuffer(data, np.uint8)
        self.arena = np.zeros(1 << 14, np.uint8)
        self.device = NpuDevice(TARGET, self._resolve)
        self.set("PROGRAM", 0)
        self.set("SRAM_BASE", 0x100000)
        self.set("SRAM_BYTES", len(self.arena))

    def _resolve(self, address: int, n_bytes: int) -> Bytes | None:
        base = self.arena if address >= 0x100000 else self.flash
        first = address - 0x100000 if base is self.arena else address
        return base[first : first + n_bytes] if first + n_bytes <= len(base) else None

    def set(self, name: str, value: int) -> None:
        self.device.write(BY_NAME[name].offset, value)

    def get(self, name: str) -> int:
        return self.device.read(BY_NAME[name].offset)


def test_the_device_goes_on_when_the_counter_of_calls_does() -> None:
    npu = Registers(mixed_binary())
    npu.set("CONTROL", 1)
    npu.device.advance_to(10_000)
    assert npu.get("STATUS") == Status.BUSY
    assert npu.device.next_event is None
    npu.arena[0x400 : 0x400 + N] = 9
    npu.set("WAIT_1", NO_WAIT)
    npu.set("WAIT_0", Queue.DMA_OUT << 16 | 1)
    npu.set("ARM_COUNT", 1)
    event = npu.device.next_event
    assert event is not None
    assert 10_000 < event < 11_000
    npu.device.advance_to(event - 1)
    assert (npu.arena[0x500], npu.get("IRQ_PENDING")) == (0, 0)
    npu.device.advance_to(event)
    assert (npu.arena[0x500], npu.get("IRQ_PENDING")) == (9, Interrupt.PROGRESS)
    npu.set("IRQ_PENDING", 3)
    npu.set("ARM_COUNT", 3)
    assert npu.get("IRQ_PENDING") == 0  # WAIT is armed once
    npu.device.advance_to(20_000)
    assert npu.get("STATUS") == Status.DONE
    assert 10_000 < npu.get("CYCLES") < 11_000


def test_a_counter_that_runs_backwards_is_a_fault() -> None:
    npu = Registers(mixed_binary())
    npu.set("CONTROL", 1)
    npu.set("ARM_COUNT", 2)
    with pytest.raises(SimulatorFault, match="writes 1 to ARM_COUNT, which holds 2, while a program runs"):
        npu.set("ARM_COUNT", 1)
