"""The NPU as firmware sees it: registers (isa/registers.py) around machines that share the firmware's memory.

The device counts its own cycles; whoever owns it says how far time has come. An instruction computes its data when it
retires: firmware that reads outputs too early finds the old ones. Calls of the Arm core are the firmware's: the device
learns from ARM_COUNT when one has ended, and lets the instructions go on that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.container_format import ALIGNMENT_BYTES, CONTAINER_HEADER, CONTAINER_VERSION, MAGIC
from isa.errors import IsaError
from isa.instructions import Queue
from isa.record import decode_record
from isa.registers import BY_OFFSET, DEVICE_ID, DEVICE_VERSION, NO_WAIT, Control, Fault, Interrupt, Status
from isa.target import Target
from simulator.device_run import Bound, Run, prepare, retirement
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.memory import Bytes
from simulator.order import COUNTER_RANGE, UNITS

Resolve = Callable[[int, int], Bytes | None]
"""(address, n_bytes) to those bytes of the firmware's memory, shared, read-only in flash; None where no memory is."""

_WORD = 0xFFFFFFFF
_NO_QUEUE = NO_WAIT >> 16
_STORED = ("PROGRAM", "SRAM_BASE", "SRAM_BYTES", "IRQ_ENABLE", "ARM_COUNT", "WAIT_1", "WAIT_2")
"""Registers that a write changes and does nothing else with."""


class Refused(Exception):
    """Why the doorbell did not start a program."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


class NpuDevice:
    """A device of `target`. `reports` collects, for the user, what FAULT can only hint at."""

    def __init__(self, target: Target, resolve: Resolve) -> None:
        self.target = target
        self.reports: list[str] = []
        self.n_runs = 0
        self._resolve = resolve
        self._bound: dict[tuple[int, int, int], Bound] = {}
        self._now = 0
        self._reset()

    def _reset(self) -> None:
        self._values = dict.fromkeys(_STORED, 0) | {"WAIT_0": NO_WAIT, "WAIT_1": NO_WAIT, "WAIT_2": NO_WAIT}
        self._status, self._fault, self._pending = Status(0), Fault.NONE, Interrupt(0)
        self._run: Run | None = None
        self._began = self._cycles = 0
        self._is_armed = False
        self._progress_at: int | None = None

    @property
    def is_interrupting(self) -> bool:
        """The interrupt line."""
        return bool(self._pending & self._values["IRQ_ENABLE"])

    @property
    def next_event(self) -> int | None:
        """Cycle at which something happens by itself."""
        end = self._run.end if self._run and Status.BUSY in self._status else None
        events = (None if end is None else self._began + end, self._progress_at)
        return min((cycle for cycle in events if cycle is not None), default=None)

    def advance_to(self, cycle: int) -> None:
        """Let time come to `cycle`; it never goes back."""
        self._now = max(self._now, cycle)
        if self._run and Status.BUSY in self._status:
            self._run.advance_to(self._now - self._began)
            end = self._run.end
            if end is not None and self._now >= self._began + end:
                self.n_runs += 1
                self._end(end)
        if self._progress_at is not None and self._now >= self._progress_at:
            self._is_armed, self._progress_at = False, None
            self._pending |= Interrupt.PROGRESS

    def _end(self, n_cycles: int, fault: Fault = Fault.NONE) -> None:
        self._status = Status.DONE | (Status.FAULT if fault else Status(0))
        self._fault, self._cycles = fault, n_cycles
        self._pending |= Interrupt.DONE

    def read(self, offset: int) -> int:
        """The value of a register; SimulatorFault when there is none or it cannot be read."""
        name = _register(offset, "r")
        fingerprint = bytes.fromhex(self.target.fingerprint)
        return {
            **self._values,
            "ID": DEVICE_ID,
            "VERSION": DEVICE_VERSION,
            "FINGERPRINT_LO": int.from_bytes(fingerprint[:4], "little"),
            "FINGERPRINT_HI": int.from_bytes(fingerprint[4:], "little"),
            "STATUS": int(self._status),
            "FAULT": int(self._fault),
            "IRQ_PENDING": int(self._pending),
            "CYCLES": min(self._now - self._began if Status.BUSY in self._status else self._cycles, _WORD),
        }[name]

    def write(self, offset: int, value: int) -> None:
        """Write a register; SimulatorFault when there is none or it cannot be written."""
        name = _register(offset, "w")
        if name == "CONTROL":
            self._control(value)
        elif name == "IRQ_PENDING":
            self._pending &= ~Interrupt(value & 3)
        else:
            before, self._values[name] = self._values[name], value % COUNTER_RANGE if name == "ARM_COUNT" else value
            if name == "ARM_COUNT":
                self._calls_ended(before)
            self._is_armed |= name == "WAIT_0"
            if name in ("WAIT_0", "ARM_COUNT"):
                self._arm()

    def _control(self, value: int) -> None:
        if value & Control.RESET:
            self._reset()
        if value & Control.START and Status.BUSY not in self._status:
            self._began, self._is_armed, self._progress_at = self._now, False, None
            try:
                self._run = Run(self._bind(), self._values["ARM_COUNT"])
                self._status, self._fault = Status.BUSY, Fault.NONE
            except Refused as refused:
                self.reports.append(str(refused))
                self._end(0, refused.fault)

    def _calls_ended(self, before: int) -> None:
        """The counter of the Arm core was `before` and is further now."""
        ended = (self._values["ARM_COUNT"] - before) % COUNTER_RANGE
        if ended and self._run and Status.BUSY in self._status:
            if ended >= COUNTER_RANGE // 2:
                raise SimulatorFault(
                    f"writes {self._values['ARM_COUNT']} to ARM_COUNT, which holds {before}, while a program runs",
                    "count calls upwards, from 0 before each start",
                )
            self._run.calls_ended(ended, self._now - self._began)

    def _arm(self) -> None:
        """Find out when all conditions hold."""
        conditions = [self._values[f"WAIT_{i}"] for i in range(3)]
        if all(condition >> 16 == _NO_QUEUE for condition in conditions):
            self._is_armed = False
        if not self._is_armed:
            self._progress_at = None
            return
        times = [self._holds_at(condition >> 16, condition % COUNTER_RANGE) for condition in conditions]
        known = [time for time in times if time is not None]
        self._progress_at = max(known) if len(known) == len(times) else None
        self.advance_to(self._now)

    def _holds_at(self, queue: int, count: int) -> int | None:
        """Cycle from which on a condition holds, if ever."""
        if queue == _NO_QUEUE:
            return self._now
        retired = np.empty(0, np.int64)
        first = self._values["ARM_COUNT"]
        if queue in UNITS and self._run:
            retired = self._run.retired(Queue(queue)) + self._began
            first = int(np.searchsorted(retired, self._now, "right"))
            retired = retired[first:]
        holds = (first + np.arange(len(retired) + 1) - count) % COUNTER_RANGE < COUNTER_RANGE // 2
        if not holds.any():
            return None
        index = int(np.argmax(holds))
        return int(retired[index - 1]) if index else self._now

    def _bind(self) -> Bound:
        """The program at PROGRAM in the arena at SRAM_BASE; a program that ran there before is ready."""
        address, base, n_bytes = (self._values[name] for name in ("PROGRAM", "SRAM_BASE", "SRAM_BYTES"))
        data = self._program(address)
        arena = self._resolve(base, n_bytes)
        if arena is None or not arena.flags.writeable or base % ALIGNMENT_BYTES:
            raise Refused(Fault.ADDRESS, f"arena of {n_bytes} bytes at {base:#010x}: not in sram, or not aligned")
        key = (address, base, n_bytes)
        if key not in self._bound or self._bound[key].data != data:
            self._bound[key] = self._load(data, arena)
        return self._bound[key]

    def _program(self, address: int) -> bytes:
        head = self._resolve(address, CONTAINER_HEADER.length_bytes)
        if head is None or address % ALIGNMENT_BYTES:
            raise Refused(Fault.ADDRESS, f"program at {address:#010x}: no memory there, or not aligned")
        header = decode_record(CONTAINER_HEADER, head.tobytes()) if not any(head[56:60]) else {}
        if (header.get("magic"), header.get("container_version")) != (MAGIC, CONTAINER_VERSION):
            raise Refused(Fault.PROGRAM, f"program at {address:#010x}: not an npuc program of this version")
        fingerprint = header["fingerprint"].to_bytes(8, "little").hex()
        if fingerprint != self.target.fingerprint:
            mine = f"the device {self.target.name} has {self.target.fingerprint}"
            raise Refused(Fault.FINGERPRINT, f"program at {address:#010x} has fingerprint {fingerprint}, {mine}")
        whole = self._resolve(address, header["total_bytes"])
        if whole is None:
            raise Refused(Fault.PROGRAM, f"program at {address:#010x}: {header['total_bytes']} bytes leave the memory")
        return whole.tobytes()

    def _load(self, data: bytes, arena: Bytes) -> Bound:
        try:
            program, alone = prepare(data, self.target)
        except (IsaError, SimulatorFault) as error:
            raise Refused(Fault.PROGRAM, str(error)) from error
        try:
            machine = Machine(program, sram=arena)
        except SimulatorFault as error:
            raise Refused(Fault.ACCESS, str(error)) from error
        return Bound(data, machine, alone, retirement(alone, []))


def _register(offset: int, access: str) -> str:
    register = BY_OFFSET.get(offset)
    if register is None or access not in register.access:
        verb = {"r": "reads", "w": "writes"}[access]
        name = f"register {register.name}" if register else f"offset {offset:#x}, where there is no register"
        raise SimulatorFault(f"{verb} {name} of the NPU", "see the register table in docs/firmware.md")
    return register.name
