"""Faults: what a program did that the machine cannot do, and where."""

from __future__ import annotations

from dataclasses import dataclass


class SimulatorFault(Exception):
    """A program or its data broke a rule of the machine; `hint`, in the imperative, says what to change."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Site:
    """Where a fault happens, as messages name it."""

    name: str

    def fault(self, message: str, hint: str = "") -> SimulatorFault:
        """The fault `message` at this place."""
        return SimulatorFault(f"{self.name}: {message}", hint)


def instruction_site(index: int, mnemonic: str, layer: str = "") -> Site:
    """An instruction by its number in program order, its mnemonic and, when a debug map is known, its layer."""
    return Site(f"instruction {index} ({mnemonic})" + (f" of layer {layer}" if layer else ""))


def call_site(index: int, kernel: int, layer: str = "") -> Site:
    """A call of the Arm core by its number, its kernel and, when a debug map is known, its layer."""
    return Site(f"arm call {index} (kernel {kernel})" + (f" of layer {layer}" if layer else ""))
