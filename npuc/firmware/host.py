"""The kernels on this machine: a shared object called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from npuc.arm.kernel_spec import KERNELS
from npuc.arm.memory import Bytes
from npuc.firmware.call_guard import first_stray_call
from npuc.firmware.toolchain import STAGE, ToolchainError, build_kernels

_Function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Entry(ctypes.Structure):
    """npuc_kernel_entry."""

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("parameter_bytes", ctypes.c_uint32),
        ("run", _Function),
    )


class HostKernels:
    """A backend of `graph_runner`. The shared object must export `npuc_kernel_table` of this version's kernels."""

    def __init__(self, library: Path) -> None:
        self._path, self._library = library, ctypes.CDLL(str(library))
        table = (_Entry * len(KERNELS)).in_dll(self._library, "npuc_kernel_table")
        self._entries = {(entry.id, entry.version): entry for entry in table}

    def run(self, calls: Sequence[tuple[int, int, bytes]], sram: Bytes, flash: Bytes) -> int:
        """Run calls (kernel id, version, parameter record) in order; the number that succeeded.

        ToolchainError: the shared object lacks a kernel in that version, or its record has another length.
        """
        bases = (sram.ctypes.data, flash.ctypes.data)
        for n_done, (kernel_id, version, parameters) in enumerate(calls):
            entry = self._entries.get((kernel_id, version))
            if entry is None or entry.parameter_bytes != len(parameters):
                raise ToolchainError(
                    f"the kernel library has no kernel {kernel_id} of version {version} with {len(parameters)} bytes "
                    "of parameters", stage=STAGE, hint="use the library of the compiler that made the program",
                )  # fmt: skip
            words = np.frombuffer(parameters, np.int32).copy()
            if entry.run(words.ctypes.data, *bases):
                return n_done
        return len(calls)

    def stray_call(
        self, calls: Sequence[tuple[int, int, bytes]], sram_bytes: int, flash: bytes
    ) -> tuple[int, str] | None:
        """The first call that leaves its memories or does not end, and how: for parameters that nobody vouches for.

        Calls that `run` refuses are left to it.
        """
        known = {(spec.kernel_id, spec.version): spec.name for spec in KERNELS}
        places = [
            i for i, (kernel_id, version, parameters) in enumerate(calls)
            if (entry := self._entries.get((kernel_id, version))) and entry.parameter_bytes == len(parameters)
        ]  # fmt: skip
        rows = [(known[calls[i][:2]], calls[i][2]) for i in places]
        found = first_stray_call(self._path, rows, sram_bytes, flash)
        return None if found is None else (places[found[0]], found[1])


@cache
def host_kernels() -> HostKernels:
    """The kernels of this package, built for this machine on first use."""
    return HostKernels(build_kernels("host"))
