"""Semihosting: text output and exit status of firmware, by `bkpt 0xab` with the call in r0 and its argument in r1."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from unicorn.arm_const import UC_ARM_REG_R0, UC_ARM_REG_R1

from simulator.errors import SimulatorFault

BREAKPOINT = 0xBEAB
_WRITE_CHARACTER, _WRITE_STRING, _WRITE, _EXIT, _EXIT_EXTENDED = 0x03, 0x04, 0x05, 0x18, 0x20
_APPLICATION_EXIT = 0x20026
_MAX_BYTES = 1 << 16
"""Of one write."""


class Semihosting:
    """Serves the calls of a core; `status` is set when the firmware has ended."""

    def __init__(self, uc: Any, output: Callable[[bytes], None]) -> None:
        self._uc = uc
        self._output = output
        self.status: int | None = None

    def serve(self) -> None:
        """Do what the registers ask for; SimulatorFault for a call that is not known."""
        call, argument = self._uc.reg_read(UC_ARM_REG_R0), self._uc.reg_read(UC_ARM_REG_R1)
        if call == _WRITE_CHARACTER:
            self._output(bytes(self._uc.mem_read(argument, 1)))
        elif call == _WRITE_STRING:
            self._output(self._string(argument))
        elif call == _WRITE:
            _, address, n_bytes = struct.unpack("<3I", self._uc.mem_read(argument, 12))
            self._output(bytes(self._uc.mem_read(address, min(n_bytes, _MAX_BYTES))))
            self._uc.reg_write(UC_ARM_REG_R0, max(n_bytes - _MAX_BYTES, 0))
        elif call == _EXIT:
            self.status = 0 if argument == _APPLICATION_EXIT else 1
        elif call == _EXIT_EXTENDED:
            reason, status = struct.unpack("<2I", self._uc.mem_read(argument, 8))
            self.status = status & 0xFF if reason == _APPLICATION_EXIT else 1
        else:
            raise SimulatorFault(f"semihosting call {call:#x} is not known", "allowed are 0x3, 0x4, 0x5, 0x18 and 0x20")

    def _string(self, address: int) -> bytes:
        text = bytearray()
        while len(text) < _MAX_BYTES and (character := self._uc.mem_read(address + len(text), 1)[0]):
            text.append(character)
        return bytes(text)
