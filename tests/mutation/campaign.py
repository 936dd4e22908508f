"""Judges mutants: whether their outputs ever differ, and who catches them."""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError
from npuc.firmware.host import host_kernels
from npuc.verify import verify_program
from simulator.errors import SimulatorFault
from simulator.machine import Machine
from simulator.program import load
from simulator.strict import check
from tests.mutation.mutants import Mutant
from tests.mutation.networks import random_inputs
from tests.mutation.oracle import Oracle
from tests.mutation.program import editable


@dataclass(frozen=True)
class Result:
    """What became of a mutant; `verifier` and `strict` are the kinds of finding, empty when there is none."""

    kind: str
    name: str
    differs: bool
    timing: str
    verifier: str
    strict: str

    @property
    def escaped(self) -> bool:
        """Whether the mutant computes something else and nobody says so."""
        return self.differs and not self.verifier and not self.strict


class Campaign:
    """One program, its oracle, and what its mutants are judged by."""

    def __init__(self, data: bytes) -> None:
        self._program = editable(data)
        machine = Machine(load(data), kernels=host_kernels() if self._program.calls else None)
        inputs = random_inputs(machine)
        self._oracle = Oracle(data, inputs, machine.run(inputs))
        self.false_alarms = [found for found in (verifier_kind(data), strict_kind(data)) if found]
        if self._oracle.judge(data).differs:
            self.false_alarms.append("oracle")

    def examine(self, mutant: Mutant) -> Result:
        """Run one mutant, verify it, and check it in strict mode."""
        data = self._program.changed(mutant.change)
        outcome = self._oracle.judge(data)
        return Result(mutant.kind, mutant.name, outcome.differs, outcome.timing, verifier_kind(data), strict_kind(data))


def verifier_kind(data: bytes) -> str:
    """The kind of the static verifier's first finding."""
    verdict = verify_program(data)
    return next((finding.kind for finding in (*verdict.races, *verdict.findings)), "")


def strict_kind(data: bytes) -> str:
    """The kind of the first finding of strict mode."""
    try:
        findings = check(load(data))
    except (SimulatorFault, IsaError):
        return "fault"
    return findings[0].kind if findings else ""
