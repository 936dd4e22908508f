"""Code, RAM and stack of the driver: within their limits, and what the docs say."""

import re
import shutil
import subprocess
from pathlib import Path

from npuc.firmware.bundle import OPTIONAL, RUNTIME, bundle_files
from tests.firmware_runtime import footprint
from tests.firmware_runtime.build import FLAGS, compiler
from tests.shared_data import leave_out

MAX_CODE_BYTES, MAX_RAM_BYTES, MAX_STACK_BYTES = 8 * 1024, 512, 256


def written(folder: Path) -> Path:
    for name, content in bundle_files([]).items():
        (folder / name).write_bytes(content)
    return folder


def test_runtime_and_driver_are_small(tmp_path: Path) -> None:
    from elftools.elf.elffile import ELFFile

    written(tmp_path)
    code = ram = 0
    for path in sorted(RUNTIME.glob("*.c")):
        if path.name in OPTIONAL:
            continue
        subprocess.run([*compiler(), *FLAGS, "-c", path.name, "-o", "out.o"], cwd=tmp_path, check=True)
        with (tmp_path / "out.o").open("rb") as file:
            for section in ELFFile(file).iter_sections():
                flags, n_bytes = section["sh_flags"], section["sh_size"]
                code += n_bytes if flags & 2 and not flags & 1 else 0
                ram += n_bytes if flags & 1 else 0
    assert code <= MAX_CODE_BYTES
    assert ram <= MAX_RAM_BYTES


def test_size_and_stack_are_those_of_the_docs(tmp_path: Path) -> None:
    if not shutil.which("arm-none-eabi-gcc"):
        leave_out("no arm-none-eabi-gcc to measure the driver with")
    _, _, compiling, measuring = footprint.documented_commands()
    subprocess.run(compiling.split(), cwd=written(tmp_path), check=True)
    output = subprocess.run(measuring.split(), cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    code, ram = footprint.total_bytes(output)
    stacks = footprint.stacks(tmp_path)
    assert 0 < code <= MAX_CODE_BYTES
    assert ram <= MAX_RAM_BYTES
    assert max(stack.deepest for stack in stacks.values()) <= MAX_STACK_BYTES
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpversion"], check=True, capture_output=True, text=True).stdout
    if version.startswith(re.findall(r"arm-none-eabi-gcc ([\d.]+):", footprint.section())[0]):
        assert (code, ram) == footprint.documented_bytes()
        documented = footprint.documented_stacks()
        assert documented == {name: stacks[name] for name in documented}
        assert len(documented) >= 7
