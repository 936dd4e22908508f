"""The core under Verilator: builds the bench, once for each content of its sources, and runs programs on it."""

import fcntl
import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from isa.descriptors import LAYER
from isa.instructions import BY_MNEMONIC, Queue
from isa.record import encode_record
from simulator.program import Program
from tests.shared_data import ROOT, leave_out

RTL = ROOT / "rtl"
BENCH = ROOT / "tests" / "rtl" / "bench.cpp"
FLAGS = ("--cc", "--exe", "--build", "-O3", "-CFLAGS", "-O1", "-Wno-WIDTH", "--top-module", "npuc_core")
CODE_BYTES, DESCRIPTOR_BYTES = 32, 128

Bytes = npt.NDArray[np.uint8]
Times = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Job:
    """A program, or its first instructions, with the bytes of sram before it runs."""

    program: Program
    sram: Bytes
    n_instructions: int
    max_cycles: int = 1 << 20

    def encode(self) -> bytes:
        rows = b"".join(_instructions(self.program, self.n_instructions))
        sizes = (self.n_instructions, len(self.sram), len(self.program.flash), self.max_cycles)
        return struct.pack("<4i", *sizes) + rows + self.sram.tobytes() + self.program.flash.tobytes()


@dataclass(frozen=True)
class Result:
    """What the core did; `times` [instructions, (start, issue_end, retire)] in cycles, -1 where there is none."""

    total_cycles: int
    words_read: int
    words_written: int
    times: Times
    sram: Bytes


def run(jobs: Sequence[Job]) -> list[Result]:
    """Run every job on a core of its own."""
    done = subprocess.run([_binary()], input=b"".join(job.encode() for job in jobs), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    results, offset = [], 0
    for job in jobs:
        total, words_read, words_written = struct.unpack_from("<3i", done.stdout, offset)
        times = np.frombuffer(done.stdout, "<i4", 3 * job.n_instructions, offset + 12).reshape(-1, 3)
        offset += 12 + times.nbytes
        sram = np.frombuffer(done.stdout, np.uint8, len(job.sram), offset)
        offset += len(sram)
        assert total >= 0, f"the core has not finished after {job.max_cycles} cycles: times {times.tolist()}"
        results.append(Result(total, words_read, words_written, times, sram))
    return results


def _instructions(program: Program, count: int) -> Iterator[bytes]:
    code = program.code
    stream_end = 0
    for index in range(count):
        offset, length = int(code.offset[index]), int(code.length[index])
        stream_end += length
        is_load = int(code.opcode[index]) == BY_MNEMONIC["desc.load"].opcode
        descriptor_bytes = 8 * int(code.fields["words"][index]) if is_load else 0
        record = program.spec(index).descriptor
        captured = encode_record(record, program.descriptor(index)) if record else b""
        yield struct.pack("<3i", int(code.queue[index]), stream_end, descriptor_bytes)
        yield program.container.instructions[offset : offset + length].ljust(CODE_BYTES, b"\0")
        yield captured.ljust(DESCRIPTOR_BYTES, b"\0")


def n_supported(program: Program) -> int:
    """Instructions before the first one of a unit that the core does not have."""
    foreign = np.flatnonzero(np.isin(program.code.queue, (Queue.VEC, Queue.ARM)))
    return int(foreign[0]) if len(foreign) else len(program.code)


def require(tool: str) -> str:
    """Path of a tool; without it the running test fails where everything must run, and is left out elsewhere."""
    path = shutil.which(tool)
    if path is None:
        leave_out(f"{tool} is not on PATH (Debian package {tool})")
    return str(path)


@cache
def _binary() -> Path:
    verilator = require("verilator")
    sources = [*sorted(RTL.glob("*.v")), BENCH]
    version = subprocess.run([verilator, "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(version + " ".join(FLAGS).encode())
    for path in (*sources, *sorted(RTL.glob("*.vh"))):
        digest.update(path.read_bytes())
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    binary = cache_home / "npuc" / "rtl" / digest.hexdigest()[:24]
    binary.parent.mkdir(parents=True, exist_ok=True)
    with binary.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.is_file():
            _build(verilator, sources, binary)
    return binary


def _build(verilator: str, sources: Sequence[Path], binary: Path) -> None:
    with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
        command = [verilator, *FLAGS, f"-I{RTL}", "--Mdir", folder, "-o", "bench", *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        os.replace(Path(folder) / "bench", binary)


assert LAYER.length_bytes == DESCRIPTOR_BYTES
