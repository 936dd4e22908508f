"""The little of a Cortex-M's interrupt controller that firmware of an NPU needs, and exception entry and return.

One priority, no nesting, main stack only. Registers of the system space that are not listed read as zero and ignore
writes.
"""

from __future__ import annotations

import struct
from typing import Any

from unicorn.arm_const import (
    UC_ARM_REG_LR,
    UC_ARM_REG_PC,
    UC_ARM_REG_PRIMASK,
    UC_ARM_REG_R0,
    UC_ARM_REG_R1,
    UC_ARM_REG_R2,
    UC_ARM_REG_R3,
    UC_ARM_REG_R12,
    UC_ARM_REG_SP,
    UC_ARM_REG_XPSR,
)

from simulator.errors import SimulatorFault

SYSTEM_BASE, SYSTEM_BYTES = 0xE000E000, 0x1000
_ENABLE, _DISABLE, _SET_PENDING, _CLEAR_PENDING, _VTOR = 0x100, 0x180, 0x200, 0x280, 0xD08
_FIRST_INTERRUPT = 16
_EXC_RETURN = 0xFFFFFFF9
"""To thread mode, main stack, no floating-point frame."""

_FRAME = (UC_ARM_REG_R0, UC_ARM_REG_R1, UC_ARM_REG_R2, UC_ARM_REG_R3, UC_ARM_REG_R12, UC_ARM_REG_LR)
_ALIGNED = 1 << 9
_IT_BITS = 0x0600FC00
_IPSR_BITS = 0x1FF


class Interrupts:
    """Interrupt 0 to 31 of an emulated core; the vector table is at `vectors` until firmware moves it."""

    def __init__(self, uc: Any, vectors: int) -> None:
        self._uc = uc
        self._vectors = vectors
        self._enabled = 0
        self._software = 0
        self._lines = 0
        self._active: int | None = None

    def set_line(self, number: int, is_up: bool) -> None:
        """A device's interrupt line."""
        self._lines = self._lines & ~(1 << number) | is_up << number

    @property
    def pending(self) -> int:
        """Enabled interrupts that wait, one bit each; they wake a sleeping core even when masked."""
        return (self._lines | self._software) & self._enabled if self._active is None else 0

    @property
    def is_masked(self) -> bool:
        """Whether the core cannot take an interrupt now: PRIMASK, or in the middle of an IT block."""
        return bool(self._uc.reg_read(UC_ARM_REG_PRIMASK) & 1 or self._uc.reg_read(UC_ARM_REG_XPSR) & _IT_BITS)

    def read(self, offset: int) -> int:
        """A register of the system space."""
        known = {_ENABLE: self._enabled, _DISABLE: self._enabled, _SET_PENDING: self._lines | self._software,
                 _CLEAR_PENDING: self._lines | self._software, _VTOR: self._vectors}  # fmt: skip
        return known.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a register of the system space."""
        if offset == _ENABLE:
            self._enabled |= value
        elif offset == _DISABLE:
            self._enabled &= ~value
        elif offset == _SET_PENDING:
            self._software |= value
        elif offset == _CLEAR_PENDING:
            self._software &= ~value
        elif offset == _VTOR:
            self._vectors = value

    def enter(self) -> None:
        """Take the pending interrupt of the lowest number: push the frame, go to the handler."""
        number = (self.pending & -self.pending).bit_length() - 1
        uc, xpsr = self._uc, self._uc.reg_read(UC_ARM_REG_XPSR)
        sp = uc.reg_read(UC_ARM_REG_SP)
        frame = (sp - 32) & ~7
        stored = xpsr & ~_ALIGNED | (_ALIGNED if sp & 4 else 0)
        words = [*(uc.reg_read(register) for register in _FRAME), uc.reg_read(UC_ARM_REG_PC), stored]
        uc.mem_write(frame, struct.pack("<8I", *words))
        uc.reg_write(UC_ARM_REG_SP, frame)
        uc.reg_write(UC_ARM_REG_LR, _EXC_RETURN)
        uc.reg_write(UC_ARM_REG_XPSR, xpsr & ~_IPSR_BITS | _FIRST_INTERRUPT + number)
        (handler,) = struct.unpack("<I", uc.mem_read(self._vectors + 4 * (_FIRST_INTERRUPT + number), 4))
        if not handler & 1:
            raise SimulatorFault(f"vector {_FIRST_INTERRUPT + number} holds {handler:#010x}, which is no Thumb address",
                                 "put the handler of the interrupt into the vector table")  # fmt: skip
        uc.reg_write(UC_ARM_REG_PC, handler & ~1)
        self._active, self._software = number, self._software & ~(1 << number)

    def leave(self) -> None:
        """Return from the handler: pop the frame."""
        if self._active is None:
            raise SimulatorFault("returns from an interrupt outside of one", "check the stack for overwritten frames")
        uc = self._uc
        frame = uc.reg_read(UC_ARM_REG_SP)
        *registers, pc, xpsr = struct.unpack("<8I", uc.mem_read(frame, 32))
        for register, value in zip(_FRAME, registers, strict=True):
            uc.reg_write(register, value)
        uc.reg_write(UC_ARM_REG_SP, frame + 32 + (4 if xpsr & _ALIGNED else 0))
        uc.reg_write(UC_ARM_REG_XPSR, xpsr & ~_ALIGNED)
        uc.reg_write(UC_ARM_REG_PC, pc & ~1)
        self._active = None
