"""Runs an image of kernels (any ELF that exports `npuc_kernel_table`) on an emulated Arm core, call by call.

Memory of the core; what lies between is not mapped, so that a stray access faults:

    0x00008000  breakpoints, where kernels return to
    0x00010000  the image
    0x08000000  flash: constants
    0x20000000  stack, at its very bottom: an overflow leaves it
    0x20100000  the parameter record of the call
    0x21000000  sram

The core works on the arrays themselves where these are pages of their own (`shared_bytes`), else on copies.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unicorn import arm64_const, arm_const
from unicorn.unicorn_const import (
    UC_ARCH_ARM,
    UC_ARCH_ARM64,
    UC_MODE_ARM,
    UC_MODE_MCLASS,
    UC_MODE_THUMB,
    UC_PROT_EXEC,
    UC_PROT_READ,
    UC_PROT_WRITE,
)
from unicorn.unicorn_py3.unicorn import Uc, UcError

from simulator.arm_image import load_image
from simulator.errors import SimulatorFault
from simulator.memory import Bytes
from simulator.shared_memory import PAGE_BYTES, is_shared, page_bytes, shared_bytes

_RETURN, _FLASH, _STACK, _PARAMETERS, _SRAM = 0x00008000, 0x08000000, 0x20000000, 0x20100000, 0x21000000
TABLE = "npuc_kernel_table"
STACK_BYTES = 4096
MAX_INSTRUCTIONS = 1 << 36
"""Of one call; a kernel that runs longer does not end."""


@dataclass(frozen=True)
class Core:
    """A processor that Unicorn emulates: how to make it, and its calling convention."""

    architecture: int
    mode: int
    model: int | None
    arguments: tuple[int, int, int]
    stack: int
    link: int
    counter: int
    breakpoint: bytes
    entry: str
    """struct format of npuc_kernel_entry."""
    machine: str
    """What ELF files call the architecture."""


def _thumb(mode: int, model: int | None) -> Core:
    r = arm_const
    arguments = (r.UC_ARM_REG_R0, r.UC_ARM_REG_R1, r.UC_ARM_REG_R2)
    return Core(UC_ARCH_ARM, mode, model, arguments, r.UC_ARM_REG_SP, r.UC_ARM_REG_LR, r.UC_ARM_REG_PC, b"\x00\xbe",
                "<4I", "EM_ARM")  # fmt: skip


def _aarch64() -> Core:
    r = arm64_const
    arguments = (r.UC_ARM64_REG_X0, r.UC_ARM64_REG_X1, r.UC_ARM64_REG_X2)
    return Core(UC_ARCH_ARM64, UC_MODE_ARM, None, arguments, r.UC_ARM64_REG_SP, r.UC_ARM64_REG_X30, r.UC_ARM64_REG_PC,
                b"\x00\x00\x20\xd4", "<3I4xQ", "EM_AARCH64")  # fmt: skip


# M-class mode is always a Cortex-M33, whatever model is set; older cores are Thumb mode with a model.
CORES = {
    "cortex-m4": _thumb(UC_MODE_THUMB, arm_const.UC_CPU_ARM_CORTEX_M4),
    "cortex-m7": _thumb(UC_MODE_THUMB, arm_const.UC_CPU_ARM_CORTEX_M7),
    "cortex-m33": _thumb(UC_MODE_THUMB | UC_MODE_MCLASS, None),
    "aarch64": _aarch64(),
}


class ArmKernels:
    """An image on a core of CORES."""

    def __init__(self, image: Path, core_name: str) -> None:
        self.core = CORES[core_name]
        self.name = f"{core_name} running {image.name}"
        self._uc = emulator(self.core)
        self._image = load_image(image, self.core.machine)
        self._load()
        self._map(_RETURN, self.core.breakpoint * (PAGE_BYTES // len(self.core.breakpoint)),
                  UC_PROT_READ | UC_PROT_EXEC)  # fmt: skip
        self._map(_STACK, bytes(STACK_BYTES), UC_PROT_READ | UC_PROT_WRITE)
        self._map(_PARAMETERS, bytes(PAGE_BYTES), UC_PROT_READ)
        self._functions = self._read_table()
        self._mapped: dict[int, Bytes] = {}
        self._copies: dict[int, tuple[Bytes, Bytes]] = {}

    def run(self, calls: Sequence[tuple[int, int, bytes]], sram: Bytes, flash: Bytes) -> int:
        """Run calls (kernel id, version, parameter record) in order, changing `sram`; the number that succeeded.

        SimulatorFault: a kernel is not in the image, leaves its memories, or does not end.
        """
        self._attach(_FLASH, flash, UC_PROT_READ)
        seen = self._attach(_SRAM, sram, UC_PROT_READ | UC_PROT_WRITE)
        try:
            for n_done, call in enumerate(calls):
                if self._call(*call):
                    return n_done
            return len(calls)
        finally:
            if seen is not sram:
                sram[:] = seen

    def n_instructions(self, call: tuple[int, int, bytes], sram: Bytes, flash: Bytes) -> int:
        """Instructions that a call executes on copies of these memories; the call must be one that can be repeated.

        Found by bisection: stopping after a count costs nothing, while a hook on every instruction is slow.
        """
        sram = sram.copy()
        self._attach(_FLASH, flash, UC_PROT_READ)
        self._attach(_SRAM, sram, UC_PROT_READ | UC_PROT_WRITE)
        too_few, enough = 0, 1024
        while not self._ends_within(call, enough):
            too_few, enough = enough, 2 * enough
        while enough - too_few > 1:
            middle = (too_few + enough) // 2
            if self._ends_within(call, middle):
                enough = middle
            else:
                too_few = middle
        return enough

    def _ends_within(self, call: tuple[int, int, bytes], n_instructions: int) -> bool:
        if n_instructions > MAX_INSTRUCTIONS:
            raise self._endless()
        self._start(*call, n_instructions)
        return self._has_returned

    def _attach(self, base: int, array: Bytes, permissions: int) -> Bytes:
        """Map an array, or a copy of it; what the core sees."""
        pages, mapped = array if is_shared(array) else self._copy(base, array), self._mapped.get(base)
        if mapped is None or (mapped.ctypes.data, len(mapped)) != (pages.ctypes.data, len(pages)):
            if mapped is not None:
                self._uc.mem_unmap(base, page_bytes(len(mapped)))
            self._uc.mem_map_ptr(base, page_bytes(len(pages)), permissions, pages.ctypes.data)
        self._mapped[base] = pages
        return pages

    def _copy(self, base: int, array: Bytes) -> Bytes:
        """Pages with the contents of an array; a read-only array that comes again is not copied again."""
        source, pages = self._copies.get(base, (None, None))
        if pages is None or len(pages) != len(array):
            pages = shared_bytes(len(array))
        elif source is array and not array.flags.writeable:
            return pages
        pages[:] = array
        self._copies[base] = array, pages
        return pages

    def _call(self, kernel_id: int, version: int, parameters: bytes) -> int:
        """Status that the kernel returns."""
        self._start(kernel_id, version, parameters, MAX_INSTRUCTIONS)
        if not self._has_returned:
            raise self._endless()
        return int(self._uc.reg_read(self.core.arguments[0])) & 0xFFFFFFFF

    def _start(self, kernel_id: int, version: int, parameters: bytes, n_instructions: int) -> None:
        """Run a call to its end, or for a number of instructions."""
        function = self._functions.get((kernel_id, version, len(parameters)))
        if function is None:
            raise SimulatorFault(
                f"{self.name}: no kernel {kernel_id} of version {version} with {len(parameters)} bytes of parameters",
                "use the image of the compiler that made the program",
            )
        self._uc.mem_write(_PARAMETERS, parameters)
        thumb = 1 if self.core.architecture == UC_ARCH_ARM else 0
        for register, value in zip(self.core.arguments, (_PARAMETERS, _SRAM, _FLASH), strict=True):
            self._uc.reg_write(register, value)
        self._uc.reg_write(self.core.stack, _STACK + STACK_BYTES)
        self._uc.reg_write(self.core.link, _RETURN | thumb)
        try:
            # A count every time: calls with and without one on the same instance hang.
            self._uc.emu_start(function | thumb, _RETURN, count=n_instructions)
        except UcError as error:
            raise SimulatorFault(f"{self.name}: {error} at {self._place()}",
                                 "check offsets and strides of the record against the memories") from error  # fmt: skip

    @property
    def _has_returned(self) -> bool:
        return bool(self._uc.reg_read(self.core.counter) & ~1 == _RETURN)

    def _endless(self) -> SimulatorFault:
        return SimulatorFault(f"{self.name}: no end after {MAX_INSTRUCTIONS} instructions, at {self._place()}",
                              "check the loops of the kernel")  # fmt: skip

    def _place(self) -> str:
        """Program counter and the function that it is in."""
        pc = self._uc.reg_read(self.core.counter)
        function = self._image.function(pc)
        return f"{pc:#010x} in {function}" if function else f"{pc:#010x}"

    def _load(self) -> None:
        """Map the image's segments. Nothing has run yet, so that no translated code can be stale."""
        segments = self._image.segments
        if not segments:
            raise SimulatorFault(f"{self._image.path}: the image is empty", "keep the kernels in the linker script")
        start = min(address for address, _ in segments) // PAGE_BYTES * PAGE_BYTES
        end = max(address + len(data) for address, data in segments)
        if not _RETURN + PAGE_BYTES <= start < end <= _FLASH:
            raise SimulatorFault(f"{self._image.path}: it lies at {start:#x} to {end:#x}, allowed are 0x9000 to "
                                 "0x8000000", "link it with npuc/firmware/kernels/image.ld")  # fmt: skip
        self._map(start, bytes(end - start), UC_PROT_READ | UC_PROT_EXEC)
        for address, data in segments:
            self._uc.mem_write(address, data)

    def _read_table(self) -> dict[tuple[int, int, int], int]:
        """Function of each (kernel id, version, bytes of parameters)."""
        if TABLE not in self._image.objects:
            raise SimulatorFault(f"{self.name}: the image has no {TABLE}", "link table.c into it")
        address, n_bytes = self._image.objects[TABLE]
        rows = struct.iter_unpack(self.core.entry, bytes(self._uc.mem_read(address, n_bytes)))
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    def _map(self, address: int, data: bytes, permissions: int) -> None:
        self._uc.mem_map(address, page_bytes(len(data)), permissions)
        self._uc.mem_write(address, data)


def emulator(core: Core) -> Any:
    """A Unicorn instance, of which there are no types."""
    uc: Any = Uc
    instance = uc(core.architecture, core.mode)
    if core.model is not None:
        instance.ctl_set_cpu_model(core.model)
    return instance
