"""Firmware beside the NPU: the simulator's bytes however it waits, the same run every time, layers as they end."""

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from npuc.cli import main
from npuc.firmware.bundle import RUNTIME
from npuc.firmware.model_source import Layer
from simulator.arm_image import ArmImage
from simulator.program import load
from simulator.trace import timeline
from tests.firmware_runtime.build import BOARD, MODELS, build, model, program, run
from tests.firmware_runtime.example import N_MODES, N_SAMPLES, expected_lines

STATUSES = {name: 1 + i for i, name in enumerate(re.findall(r"X\((\w+), ", (RUNTIME / "npuc_driver.h").read_text()))}
"""Numbers of the driver's statuses; 0 is done."""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> ArmImage:
    return build(tmp_path_factory.mktemp("app"), BOARD / "main.c", [model("digits"), model("ink")])


def run_command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["firmware", "run", *arguments])
    return int(stop.value.code or 0)


def test_the_command_prints_what_the_firmware_prints_and_ends_with_its_status(
    example: ArmImage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(str(example.path)) == 0
    assert capsys.readouterr().out.splitlines() == printed()


def test_firmware_for_another_npu_ends_with_its_status_and_both_fingerprints(
    example: ArmImage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(str(example.path), "--target", "edge-64", "--sram", "512KiB") == STATUSES["FINGERPRINT"]
    out = capsys.readouterr().out
    assert "fingerprint: npu" in out
    assert out.endswith("the program was compiled for another NPU\n")


APART = """
#include "board.h"

npuc_device npu;
static npuc_context context;
static uint8_t arena[16384] __attribute__((aligned(64)));

int main(void)
{
    const uint32_t *words = (const uint32_t *)0x08100000u;
    const npuc_program program = {NPUC_ABI, words[4], sizeof arena, words, 0, 0};
    require(npuc_device_init(&npu, NPU_BASE, NPUC_POLL));
    require(npuc_model_init(&context, &npu, &program, arena, sizeof arena));
    require(npuc_run(&context));
    print("done\\n");
    return 0;
}
"""


def test_a_program_may_lie_in_flash_beside_the_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = str(build(tmp_path, APART, []).path)
    (tmp_path / "ink.npu").write_bytes(program("ink"))
    assert run_command(image, "--program", f"{tmp_path / 'ink.npu'}@0x08100000") == 0
    assert capsys.readouterr().out == "done\n"
    assert run_command(image) == STATUSES["TRUNCATED"]
    (tmp_path / "ink.npu").write_bytes(program("ink")[:-1000])
    assert run_command(image, "--program", f"{tmp_path / 'ink.npu'}@0x08100000") == STATUSES["CHECKSUM"]
    capsys.readouterr()
    assert run_command(image, "--program", f"{tmp_path / 'ink.npu'}@0x08000010") == 1
    assert "overlap 0x08000000" in capsys.readouterr().err
    assert run_command(image, "--program", "ink.npu") == 2


def test_a_fault_is_one_line_with_place_and_hint(example: ArmImage, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(str(example.path), "--max-instructions", "10000") == 1
    error = capsys.readouterr().err.splitlines()
    assert error[0].startswith("error: app.elf: the firmware has not ended after 10000 instructions, at 0x0800")
    assert error[1] == "  hint: end it with a semihosting exit, or allow more"


def printed() -> list[str]:
    """What the example prints in all modes."""
    return [*expected_lines({name: program(name) for name in MODELS})] * N_MODES


def test_outputs_of_both_models_equal_the_simulators_in_every_completion_mode(example: ArmImage) -> None:
    status, text, machine = run(example)
    assert status == 0
    assert text.splitlines() == printed()
    assert machine.device.n_runs == 2 * N_SAMPLES * N_MODES  # every doorbell rings once
    assert machine.device.reports == []


def test_the_same_image_gives_the_same_run(tmp_path: Path) -> None:
    image = build(tmp_path, LAYERS, [replace(model("digits"), layers=(Layer("first", 2, 1),))])
    (_, first_text, first), (_, second_text, second) = run(image), run(image)
    assert first.instructions == second.instructions
    assert first_text == second_text


LAYERS = """
#include "board.h"
#include "digits.h"

npuc_device npu;
static npuc_context context;
static uint8_t arena[DIGITS_ARENA_BYTES] __attribute__((aligned(64)));
static uint32_t last, n_layers;

static void on_layer(const npuc_layer *layer, uint32_t cycles, void *user)
{
    print(user);
    print(layer->name);
    print(cycles >= last ? " later\\n" : " EARLIER\\n");
    last = cycles;
    n_layers++;
}

int main(void)
{
    for (int mode = NPUC_POLL; mode <= NPUC_INTERRUPT; mode++) {
        static char title[] = "layer ";
        require(npuc_device_init(&npu, NPU_BASE, (npuc_completion)mode));
        require(digits_init(&context, &npu, arena, sizeof arena));
        require(npuc_set_layer_hook(&context, digits_layers, DIGITS_N_LAYERS, on_layer, title));
        last = 0;
        require(npuc_run(&context));
        const uint32_t cycles = npuc_cycles(&context);
        print_hex("cycles", (const int8_t *)&cycles, 4);
        print(cycles >= last ? "" : "LATE\\n");
        require(npuc_set_layer_hook(&context, 0, 0, 0, 0));
        require(npuc_run(&context));
    }
    return (int)n_layers;
}
"""


def test_layers_report_their_ends_in_order_and_cycles_are_those_of_the_timeline(tmp_path: Path) -> None:
    layers = (Layer("first", 2, 1), Layer('a "quoted"\n name', 2, 5), Layer("pool", 3, 1), Layer("softmax", 3, 2))
    status, text, _ = run(build(tmp_path, LAYERS, [replace(model("digits"), layers=layers)]))
    cycles = timeline(load(program("digits"))).total_cycles.to_bytes(4, "little").hex(" ")
    lines = [f"layer {layer.name} later" for layer in layers] + [f"cycles {cycles}"]
    assert text == "\n".join(lines * 2) + "\n"
    assert status == 2 * len(layers)


STEPS = 60_000
INTERRUPTED = f"""
#include "board.h"
#include "ink.h"

npuc_device npu;
static npuc_context context;
static uint8_t arena[INK_ARENA_BYTES] __attribute__((aligned(64)));
static volatile int stop;

static void again(npuc_context *model, npuc_status status, void *user)
{{
    require(status);
    if (!stop) {{
        require(npuc_run_async(model, again, user));
    }}
}}

int main(void)
{{
    require(npuc_device_init(&npu, NPU_BASE, NPUC_INTERRUPT));
    require(ink_init(&context, &npu, arena, sizeof arena));
    require(npuc_run_async(&context, again, 0));
    uint32_t a = 1, b = 2, n = 0;
    for (uint32_t i = 0; i < {STEPS}u; i++) {{
        const uint32_t low = a & 3u;
        n += low == 1u ? 1u : 0u;
        a = low == 0u ? a * 5u + i : low == 1u ? a - b : a ^ a >> 3;
        b = a > b ? b + a : b - (a >> 1);
    }}
    stop = 1;
    require(npuc_wait(&context, NPUC_FOREVER));
    const uint32_t results[3] = {{a, b, n}};
    print_hex("results", (const int8_t *)results, 12);
    return 0;
}}
"""


def interrupted_results() -> bytes:
    """What the loop of INTERRUPTED computes when nothing comes between."""
    a, b, n, word = 1, 2, 0, 0xFFFFFFFF
    for i in range(STEPS):
        low = a & 3
        n += low == 1
        a = (a * 5 + i if low == 0 else a - b if low == 1 else a ^ a >> 3) & word
        b = (b + a if a > b else b - (a >> 1)) & word
    return struct.pack("<3I", a, b, n)


def test_interrupts_change_nothing_in_the_code_that_they_interrupt(tmp_path: Path) -> None:
    status, text, machine = run(build(tmp_path, INTERRUPTED, [model("ink")]))
    assert (status, text) == (0, f"results {interrupted_results().hex(' ')}\n")
    assert machine.device.n_runs > 300
