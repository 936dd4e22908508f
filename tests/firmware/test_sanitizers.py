"""The kernels under undefined-behavior and address sanitizers, on random operators and a network, and two compilers'
warnings."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from npuc.firmware.toolchain import KERNELS, WARNINGS, build_kernels, kernel_sources
from tests.shared_data import ROOT, leave_out

N_CASES = 50
"""Of each family."""

PROGRAM = f"""
import sys
from pathlib import Path
from hypothesis import given, settings
from npuc.arm.kernel_spec import KERNELS
from npuc.firmware.host import HostKernels
from tests.firmware.float_operators import FLOAT_FAMILIES, check_float, float_cases, run_case
from tests.firmware.operators import FAMILIES, cases, check

class Recording(HostKernels):
    used = set()

    def run(self, calls, sram, flash):
        self.used |= {{call[0] for call in calls}}
        return super().run(calls, sram, flash)

backend = Recording(Path(sys.argv[1]))

def run(strategy, check_case):
    @settings(max_examples={N_CASES}, derandomize=True, deadline=None, database=None)
    @given(strategy)
    def every(case):
        check_case(case)

    every()

for family in FAMILIES:
    run(cases((family,)), lambda case: check(case, backend))
for family in FLOAT_FAMILIES:
    run(float_cases((family,)), lambda case: check_float(case, run_case(case, backend)))
unused = [spec.name for spec in KERNELS if spec.kernel_id not in backend.used]
assert not unused, unused
print("clean")
"""


def run_under(flag: str, preload: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    library = build_kernels("host", extra=(f"-fsanitize={flag}", "-fno-sanitize-recover=all", "-g", "-O1"))
    environment = {**os.environ, "LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(ROOT),
                   "PYTHONMALLOC": "malloc", "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)}  # fmt: skip
    return subprocess.run([sys.executable, "-c", PROGRAM, str(library)], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip


def runtime(name: str) -> str:
    """Path of a sanitizer's runtime, which must be loaded before Python."""
    command = ["gcc", f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert Path(path).is_absolute(), f"gcc has no {name}"
    return path


@pytest.mark.parametrize(("flag", "library"), [("undefined", "libubsan.so"), ("address", "libasan.so")])
def test_random_operators_are_clean(flag: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc")
    result = run_under(flag, runtime(library), tmp_path)
    assert (result.returncode, result.stdout) == (0, "clean\n"), result.stderr[-4000:]


def test_the_address_sanitizer_sees_the_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that runs one byte out of the SRAM is caught: the arrays that Python hands over are watched."""
    monkeypatch.setenv("CC", "gcc")
    forged = PROGRAM[: PROGRAM.index("def run(strategy")] + """
import numpy as np
from npuc.arm.kernel_spec import KERNEL, encode_parameters
at = dict(source=(1, 0), destination=(1, 1000), size=(1,) * 7 + (1001,))
record = encode_parameters(KERNEL["copy"], {**at, "source_stride": (1,) * 8, "destination_stride": (1,) * 8})
backend.run([(10, 1, record)], np.zeros(2000, np.uint8), np.zeros(1, np.uint8))
"""
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", forged)
    result = run_under("address", runtime("libasan.so"), tmp_path)
    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr
    assert "copy_run" in result.stderr


@pytest.mark.parametrize("compiler", ["gcc", "clang", "arm-none-eabi-gcc"])
@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_sources_compile_without_a_warning(compiler: str, level: str, tmp_path: Path) -> None:
    if not shutil.which(compiler):
        leave_out(f"no {compiler} on PATH")
    flags = [*WARNINGS, "-Wcast-qual", "-Wshadow", "-Wstrict-prototypes", level, f"-I{KERNELS}", "-c", "-o"]
    for source in kernel_sources():
        result = subprocess.run([compiler, *flags, str(tmp_path / "x.o"), str(source)], capture_output=True, text=True,
                                check=False)  # fmt: skip
        assert (result.returncode, result.stderr) == (0, "")


REAL = re.compile(r"arg_max|(?:float|real)_\w+|npuc_real")
"""Files that compute in float32."""


def test_sources_use_no_library_no_double_and_no_heap() -> None:
    for path in [*kernel_sources(), *KERNELS.glob("*.h")]:
        text = path.read_text()
        included = [line for line in text.splitlines() if line.startswith("#include <")]
        assert included in ([], ["#include <stdint.h>"]), path.name
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        assert not re.findall(r"\b(?:double|malloc|alloca|memcpy|memset)\b", code), path.name
        assert not re.findall(r"\d\.\d*(?:e-?\d+)?(?![\d.ef])", code), f"{path.name} has a constant of type double"
        assert REAL.fullmatch(path.stem) or not re.search(r"\bfloat\b", code), path.name
