"""The module of Zephyr, with stand-ins for what Zephyr gives it: its kind of library, mutex, semaphore, caches."""

import shutil
from pathlib import Path

import pytest

from npuc.cli import main
from npuc.firmware.bundle import ZEPHYR
from simulator.arm_image import load_image
from tests.firmware_runtime.build import BOARD, run
from tests.firmware_runtime.test_cmake import BIN, cmake, toolchain

PROJECT = f"""cmake_minimum_required(VERSION 3.20)
project(zephyr_like C)
set(CONFIG_NPUC y)
set(CONFIG_NPUC_HOOKS y)
add_library(zephyr_interface INTERFACE)
target_compile_definitions(zephyr_interface INTERFACE ZEPHYR_LIKE)
target_compile_options(zephyr_interface INTERFACE -std=c99 -Os -Wall -Wextra -Wconversion -Wundef -pedantic -Werror)
macro(zephyr_library_named name)
  set(library ${{name}})
  add_library(${{name}} STATIC)
  target_include_directories(${{name}} PRIVATE ${{CMAKE_SOURCE_DIR}})
endmacro()
macro(zephyr_library_sources)
  target_sources(${{library}} PRIVATE ${{ARGV}})
endmacro()
macro(zephyr_library_link_libraries)
  target_link_libraries(${{library}} PUBLIC ${{ARGV}})
endmacro()
add_subdirectory({ZEPHYR}/zephyr npuc)
npuc_add_model(ink {BOARD}/ink.onnx TARGET edge-256 CALIBRATION {BOARD}/ink.json LOCK {BOARD}/ink.npuc.lock)
add_executable(app.elf main.c {BOARD}/board.c)
target_compile_definitions(app.elf PRIVATE npuc_hook_wait=board_wait)
target_include_directories(app.elf PRIVATE {BOARD})
target_link_libraries(app.elf PRIVATE -Wl,--whole-archive npuc_zephyr -Wl,--no-whole-archive ink)
target_link_options(app.elf PRIVATE -Wl,-T,{BOARD}/board.ld)
"""

KERNEL = """#include <stdint.h>
#define ARG_UNUSED(name) (void)(name)
#define K_FOREVER -1
#define K_MSEC(n) (n)
#define K_MUTEX_DEFINE(name) int name
#define K_SEM_DEFINE(name, count, limit) volatile int name = (count)
int held, taken, given;
static int k_mutex_lock(int *mutex, int timeout) { (void)timeout; held += ++*mutex; return 0; }
static int k_mutex_unlock(int *mutex) { held -= (*mutex)--; return 0; }
static int k_sem_take(volatile int *semaphore, int timeout) { *semaphore = 0; taken++; return timeout; }
static void k_sem_give(volatile int *semaphore) { *semaphore = 1; given++; }
static void k_yield(void) { taken--; }
"""

CACHE = """#include <stddef.h>
int cleaned, invalidated;
static int sys_cache_data_flush_range(void *address, size_t n_bytes)
{
    (void)address;
    cleaned += n_bytes != 0;
    return 0;
}
static int sys_cache_data_invd_range(void *address, size_t n_bytes)
{
    (void)address;
    invalidated += n_bytes != 0;
    return 0;
}
"""

MAIN = """#include "board.h"
#include "ink.h"

extern int held, taken, given, cleaned, invalidated, npuc_mutex;
npuc_device npu;
static npuc_context context;
static uint8_t arena[INK_ARENA_BYTES] __attribute__((aligned(INK_ARENA_ALIGNMENT)));

int main(void)
{
    require(npuc_device_init(&npu, NPU_BASE, NPUC_POLL));
    require(ink_init(&context, &npu, arena, sizeof arena));
    require(npuc_run(&context));
    const int yielded = taken;
    require(npuc_device_init(&npu, NPU_BASE, NPUC_INTERRUPT));
    require(npuc_run_async(&context, 0, 0));
    const int was_held = npuc_mutex == 1 && npuc_run_async(&context, 0, 0) == NPUC_ERROR_BUSY;
    require(npuc_wait(&context, NPUC_FOREVER));
    const int is_right = yielded < 0 && taken > yielded && was_held && held == 0 && npuc_mutex == 0;
    return is_right && given == 2 && cleaned == 2 && invalidated == 2 ? 7 : 1;
}
"""


def test_the_hooks_lock_sleep_and_maintain_caches_in_a_build_of_its_kind(tmp_path: Path) -> None:
    (tmp_path / "zephyr").mkdir()
    for name, text in {
        "CMakeLists.txt": PROJECT,
        "main.c": MAIN,
        "zephyr/kernel.h": KERNEL,
        "zephyr/cache.h": CACHE,
    }.items():
        (tmp_path / name).write_text(text)
    generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
    cmake("-S", str(tmp_path), "-B", str(tmp_path / "build"), "-G", generator, f"-DNPUC_EXECUTABLE={BIN / 'npuc'}",
          "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *toolchain("arm-none-eabi"))  # fmt: skip
    cmake("--build", str(tmp_path / "build"))
    assert run(load_image(tmp_path / "build" / "app.elf"))[0] == 7
    commands = (tmp_path / "build" / "compile_commands.json").read_text()
    with_options = [line for line in commands.splitlines() if '"command"' in line and "-DZEPHYR_LIKE" in line]
    assert len(with_options) > 20  # driver, kernels and models alike


def test_the_command_prints_the_folder_of_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["firmware", "--zephyr-module"])
    assert stop.value.code == 0
    module = Path(capsys.readouterr().out.strip()) / "zephyr"
    assert {path.name for path in module.iterdir()} == {"module.yml", "Kconfig", "CMakeLists.txt", "npuc_zephyr.c"}
