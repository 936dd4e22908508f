"""Co-simulation: firmware on an emulated Cortex-M33 beside the NPU, which shares its memory and its time.

    0x08000000  flash, read-only; the vector table lies at its start
    0x20000000  sram, of the target's board; firmware and NPU see the same bytes
    0x40000000  registers of the NPU, interrupt 0
    0xe000e000  interrupt controller

What lies between is not mapped: an access there is a fault. Time is counted in instructions, in slices that end when
the NPU has something to say, so that the same image gives the same run. It stands still within a slice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from unicorn.arm_const import UC_ARM_REG_LR, UC_ARM_REG_PC, UC_ARM_REG_SP
from unicorn.unicorn_const import (
    UC_ERR_INSN_INVALID,
    UC_HOOK_INTR,
    UC_HOOK_MEM_INVALID,
    UC_MEM_FETCH_PROT,
    UC_MEM_FETCH_UNMAPPED,
    UC_MEM_READ_PROT,
    UC_MEM_READ_UNMAPPED,
    UC_PROT_ALL,
    UC_PROT_EXEC,
    UC_PROT_READ,
)
from unicorn.unicorn_py3.unicorn import UcError

from isa.registers import WINDOW_BYTES
from isa.target import Target
from simulator.arm_image import ArmImage
from simulator.arm_interrupts import SYSTEM_BASE, SYSTEM_BYTES, Interrupts
from simulator.arm_kernels import CORES, emulator
from simulator.arm_semihosting import BREAKPOINT, Semihosting
from simulator.device import NpuDevice
from simulator.errors import SimulatorFault
from simulator.memory import Bytes
from simulator.shared_memory import page_bytes, shared_bytes

FLASH_BASE, FLASH_BYTES = 0x08000000, 1 << 25
SRAM_BASE = 0x20000000
NPU_BASE, NPU_INTERRUPT = 0x40000000, 0
CYCLES_PER_INSTRUCTION = Fraction(3, 2)
"""Cycles of the Arm core, as in the cost table of its kernels."""

QUANTUM = 256
"""Instructions of the longest slice: how late a doorbell or an interrupt line may be."""

MAX_INSTRUCTIONS = 1_000_000_000
_MAX_IDLE_WAKES = 1000
"""Sleeps in a row without an event to come; a loop around `wfi` may see some."""

_NOWHERE = 0xFFFFFFFE
_EXC_RETURNS = 0xFFFFFF00
_WFI = 0xBF30
_READS, _FETCHES = (UC_MEM_READ_UNMAPPED, UC_MEM_READ_PROT), (UC_MEM_FETCH_UNMAPPED, UC_MEM_FETCH_PROT)


class ArmMachine:
    """Firmware in its memories at power-on; `output` gets its semihosting text."""

    def __init__(self, image: ArmImage, target: Target, output: Callable[[bytes], None],
                 sram_bytes: int | None = None) -> None:  # fmt: skip
        self.image = image
        self._uc = emulator(CORES["cortex-m33"])
        self._memories = [
            (FLASH_BASE, self._share(FLASH_BASE, FLASH_BYTES, UC_PROT_READ | UC_PROT_EXEC)),
            (SRAM_BASE, self._share(SRAM_BASE, sram_bytes or target.board.sram_bytes, UC_PROT_ALL)),
        ]
        self.device = NpuDevice(target, self.memory)
        self._interrupts = Interrupts(self._uc, FLASH_BASE)
        self._semihosting = Semihosting(self._uc, output)
        self.instructions = 0
        # Cycles of the NPU in an instruction of the Arm core.
        self._rate = CYCLES_PER_INSTRUCTION * Fraction(target.board.npu_hz, target.board.arm_hz)
        self._failure = ""
        self._exception: int | None = None
        self._idle_wakes = 0
        self._map_devices()
        self._power_on()

    def memory(self, address: int, n_bytes: int) -> Bytes | None:
        """Bytes of flash or sram, shared with the core; None where some of them are neither."""
        for base, array in self._memories:
            if base <= address and address + n_bytes <= base + len(array):
                return array[address - base : address - base + n_bytes]
        return None

    def run(self, max_instructions: int = MAX_INSTRUCTIONS) -> int:
        """Run to the end of the firmware; its exit status. SimulatorFault names what it did wrong, and where."""
        try:
            while self._semihosting.status is None:
                if self.instructions >= max_instructions:
                    raise SimulatorFault(f"the firmware has not ended after {max_instructions} instructions",
                                         "end it with a semihosting exit, or allow more")  # fmt: skip
                self._slice(max_instructions)
        except (SimulatorFault, UcError) as fault:
            hint = fault.hint if isinstance(fault, SimulatorFault) else "check the stack and the pointers of the call"
            raise SimulatorFault(f"{self.image.path.name}: {fault}, at {self._place()}", hint) from fault
        return self._semihosting.status

    def _slice(self, max_instructions: int) -> None:
        interrupts = self._interrupts
        interrupts.set_line(NPU_INTERRUPT, self.device.is_interrupting)
        if interrupts.pending and not interrupts.is_masked:
            interrupts.enter()
        # A pending interrupt is taken by the first instruction that unmasks it.
        n = 1 if interrupts.pending else self._instructions_to_event()
        n = min(n, max_instructions - self.instructions)
        self._emulate(n)
        if self._exception is not None:
            self._take_exception(self._exception)
        elif self._is_asleep():
            self._sleep()
        else:
            self._idle_wakes = 0
            self._advance(n)

    def _instructions_to_event(self) -> int:
        event = self.device.next_event
        if event is None:
            return QUANTUM
        return min(max(self._instruction_at(event) - self.instructions, 1), QUANTUM)

    def _instruction_at(self, cycle: int) -> int:
        """The first instruction that begins at a cycle of the NPU or later."""
        return -int(-cycle // self._rate)

    def _advance(self, n_instructions: int) -> None:
        self.instructions += n_instructions
        self.device.advance_to(int(self.instructions * self._rate))

    def _emulate(self, n_instructions: int) -> None:
        self._exception, self._failure = None, ""
        pc = self._uc.reg_read(UC_ARM_REG_PC)
        try:
            # A count every time: calls with and without one on the same instance hang.
            self._uc.emu_start(pc | 1, _NOWHERE, count=n_instructions)
        except UcError as error:
            is_unknown = error.errno == UC_ERR_INSN_INVALID
            reason = "executes an instruction that the core does not know" if is_unknown else str(error)
            raise SimulatorFault(self._failure or reason, "check pointers, stack and linker script") from error
        if self._failure:
            raise SimulatorFault(self._failure, "see docs/firmware.md")

    def _take_exception(self, number: int) -> None:
        pc = self._uc.reg_read(UC_ARM_REG_PC)
        if number in (3, 8) and pc >= _EXC_RETURNS:
            self._interrupts.leave()
        elif number == 7 and self._halfword(pc) == BREAKPOINT:
            self._semihosting.serve()
            self._uc.reg_write(UC_ARM_REG_PC, pc + 2)
        else:
            kind = {2: "svc", 7: "a breakpoint"}.get(number, f"exception {number}")
            raise SimulatorFault(f"runs into {kind}", "the co-simulation knows interrupt 0 and semihosting only")

    def _is_asleep(self) -> bool:
        pc = self._uc.reg_read(UC_ARM_REG_PC)
        return self._halfword(pc - 2) == _WFI

    def _sleep(self) -> None:
        """Let time come to the next event; a pending interrupt has woken the core already."""
        event = self.device.next_event
        if self._interrupts.pending:
            self._advance(1)
        elif event is not None:
            self._advance(max(self._instruction_at(event) - self.instructions, 1))
        else:
            self._idle_wakes += 1
            self._advance(1)
            if self._idle_wakes > _MAX_IDLE_WAKES:
                raise SimulatorFault("sleeps, and nothing will wake it", "enable the interrupt, and start a program")

    def _halfword(self, address: int) -> int | None:
        found = self.memory(address, 2)
        return None if found is None else int.from_bytes(found.tobytes(), "little")

    def _place(self) -> str:
        """Program counter, the function that it is in, and the function that the link register leads to."""
        pc, lr = (self._uc.reg_read(register) for register in (UC_ARM_REG_PC, UC_ARM_REG_LR))
        function, caller = self.image.function(pc), self.image.function((lr & ~1) - 2)
        came_from = f", called from {caller}" if caller and caller != function else ""
        return f"{pc:#010x}" + (f" in {function}" if function else "") + came_from

    def _share(self, address: int, n_bytes: int, permissions: int) -> Bytes:
        """Map memory that numpy sees too."""
        array = shared_bytes(n_bytes)
        self._uc.mem_map_ptr(address, page_bytes(n_bytes), permissions, array.ctypes.data)
        return array

    def _map_devices(self) -> None:
        self._map(NPU_BASE, WINDOW_BYTES, self.device.read, self.device.write)
        self._map(SYSTEM_BASE, SYSTEM_BYTES, self._interrupts.read, self._interrupts.write)
        self._uc.hook_add(UC_HOOK_MEM_INVALID, self._invalid_access)
        self._uc.hook_add(UC_HOOK_INTR, self._seen_exception)

    def _map(self, base: int, n_bytes: int, read: Callable[[int], int], write: Callable[[int, int], None]) -> None:
        """Registers at `base`: words only. A fault is kept and raised once the core has stopped."""

        def on_read(uc: Any, offset: int, size: int, data: object) -> int:
            try:
                return read(self._word(offset, size))
            except SimulatorFault as fault:
                self._stop(str(fault))
                return 0

        def on_write(uc: Any, offset: int, size: int, value: int, data: object) -> None:
            try:
                write(self._word(offset, size), value)
            except SimulatorFault as fault:
                self._stop(str(fault))

        self._uc.mmio_map(base, n_bytes, on_read, None, on_write, None)

    @staticmethod
    def _word(offset: int, size: int) -> int:
        if size != 4 or offset % 4:
            raise SimulatorFault(f"accesses {size} bytes of registers at offset {offset:#x}, allowed are whole words")
        return offset

    def _stop(self, failure: str) -> None:
        self._failure = self._failure or failure
        self._uc.emu_stop()

    def _invalid_access(self, uc: Any, kind: int, address: int, size: int, value: int, data: object) -> bool:
        verb = "reads" if kind in _READS else "executes" if kind in _FETCHES else "writes"
        where = "read-only flash" if self.memory(address, 1) is not None else "no memory"
        self._failure = f"{verb} {size} bytes at {address:#010x}, which is {where}"
        return False

    def _seen_exception(self, uc: Any, number: int, data: object) -> None:
        self._exception = number
        self._uc.emu_stop()

    def _power_on(self) -> None:
        for address, data in self.image.segments:
            memory = self.memory(address, len(data))
            if memory is None:
                raise SimulatorFault(f"{self.image.path}: {len(data)} bytes at {address:#010x} are no memory",
                                     f"link for flash at {FLASH_BASE:#x} and sram at {SRAM_BASE:#x}")  # fmt: skip
            memory[:] = np.frombuffer(data, np.uint8)
        flash = self._memories[0][1]
        flash.flags.writeable = False
        stack, entry = struct.unpack("<2I", flash[:8].tobytes())
        if not entry & 1 or self.memory(entry & ~1, 2) is None or self.memory(stack - 4, 4) is None:
            raise SimulatorFault(f"{self.image.path}: no vector table at {FLASH_BASE:#010x}: stack {stack:#010x}, "
                                 f"entry {entry:#010x}", "place .vectors first in the linker script")  # fmt: skip
        self._uc.reg_write(UC_ARM_REG_SP, stack)
        self._uc.reg_write(UC_ARM_REG_PC, entry & ~1)
