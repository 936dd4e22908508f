"""Whether the Arm calls of a program keep to its memories: they run once in a process that may die of it.

Kernels trust their parameters, and programs are untrusted input. Here kernels of this machine run on memories that lie
in the middle of nothing: an access outside them ends the process, which is this file on its own. Where a call accesses
follows from its parameters; only a gather looks at data, which it clamps, and the two passes take it to both ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import mmap
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

LOG = logging.getLogger("npuc.firmware")

UNCHECKED = "the kernels of this program run unchecked: this system has no room for a process that may die of them"

GUARD_BYTES = 1 << 33
"""Addresses without memory on either side: an offset and a step of 32 bits do not leave them."""

CPU_SECONDS = 120
"""What all calls may take twice; a call that takes longer does not end."""

FILLS = (0x00, 0x7F)
NO_ROOM = 3
"""Exit status of a process that could not reserve the addresses."""


def first_stray_call(
    library: Path, calls: Sequence[tuple[str, bytes]], sram_bytes: int, flash: bytes
) -> tuple[int, str] | None:
    """The first of the (kernel, parameters) that leaves its memories or does not end, and how; None when all are right.

    None, too, with a warning in the log, where such a process cannot be had: without POSIX memory calls, or under a
    limit on addresses.
    """
    if not calls:
        return None
    if sys.platform == "win32":
        LOG.warning(UNCHECKED)
        return None
    head = {"library": str(library), "sram_bytes": sram_bytes, "flash_bytes": len(flash),
            "calls": [(f"npuc_{kernel}", parameters.hex()) for kernel, parameters in calls]}  # fmt: skip
    text = json.dumps(head).encode() + b"\n" + flash
    done = subprocess.run([sys.executable, "-I", __file__], input=text, capture_output=True, check=False)
    if done.returncode == NO_ROOM:
        LOG.warning(UNCHECKED)
    if done.returncode in (0, NO_ROOM):
        return None
    last = done.stdout.split()[-1:]
    how = "does not end" if done.returncode == -signal.SIGXCPU else "leaves sram and the program"
    return (int(last[0]) if last else 0), how


def main(stream: BinaryIO) -> int:
    """Run all calls twice: with the memories' first bytes, then with their last ones, next to what is no memory."""
    import resource

    head = json.loads(stream.readline())
    flash = stream.read(head["flash_bytes"])
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 5))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = ctypes.CDLL(head["library"])
    for fill in FILLS:
        sram = _island(bytes([fill]) * head["sram_bytes"], at_end=fill != FILLS[0], is_writable=True)
        program = _island(flash, at_end=fill != FILLS[0], is_writable=False)
        if sram is None or program is None:
            return NO_ROOM
        for index, (symbol, parameters) in enumerate(head["calls"]):
            sys.stdout.write(f"{index}\n")
            sys.stdout.flush()
            record = ctypes.create_string_buffer(bytes.fromhex(parameters))
            library[symbol](record, ctypes.c_void_p(sram), ctypes.c_void_p(program))
    return 0


def _island(data: bytes, *, at_end: bool, is_writable: bool) -> int | None:
    """Address of the data, its first or last byte at a border of a page, no memory around; None without room."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    page = mmap.PAGESIZE
    n_bytes = max(-(-len(data) // page), 1) * page
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = libc.mmap(None, 2 * GUARD_BYTES + n_bytes, 0, flags, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        return None
    first = base + GUARD_BYTES
    libc.mprotect(first, n_bytes, mmap.PROT_READ | mmap.PROT_WRITE)
    start: int = first + (n_bytes - len(data) if at_end else 0)
    ctypes.memmove(start, data, len(data))
    if not is_writable:
        libc.mprotect(first, n_bytes, mmap.PROT_READ)
    return start


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer))
