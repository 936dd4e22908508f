"""Executors against the numpy reference, value by value in the order of the layers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from isa.container import Container
from npuc.cli.check import Difference, Reference, compare_outputs, compare_value, reference_graph
from npuc.cli.console import progress
from npuc.cli.debug_map import DebugMap, layer_names
from npuc.cli.executor import ExecutorName, KernelExecutor, kernel_backend, open_machine
from npuc.cli.layer_trace import LayerTrace
from npuc.errors import DoesNotFit, UnsupportedOp
from npuc.firmware.toolchain import ToolchainError
from simulator.errors import SimulatorFault
from simulator.program import load

if TYPE_CHECKING:
    from npuc.graph.types import Array

REFERENCE = "reference"


@dataclass(frozen=True)
class Subject:
    """The program that executors run: its bytes, its container, its names, and what its machine is made of."""

    data: bytes
    container: Container
    names: DebugMap
    sram_bytes: int | None
    image: Path | None = None
    """Whose kernels run the Arm calls."""


class Tester(Protocol):
    """Runs inferences on one executor and compares; `cpu_s` is what the inferences alone took."""

    cpu_s: float
    n_layers: int

    def test(self, sample: int, inputs: Mapping[str, Array], reference: Reference) -> Difference | None:
        """The first difference of the next inference from the values of the reference, which has run it."""


class SimulatorTester:
    """The simulator: outputs of a plain run, then the same inference again, instruction by instruction."""

    def __init__(self, subject: Subject) -> None:
        program = load(subject.data)
        layers = layer_names(subject.names, len(program.code))
        self.machine = open_machine(program, subject.sram_bytes, subject.image, layers=layers)
        self.cpu_s = 0.0
        self._trace = LayerTrace(self.machine, subject.names, reference_graph(subject.container))
        self.n_layers = self._trace.n_layers

    def test(self, sample: int, inputs: Mapping[str, Array], reference: Reference) -> Difference | None:
        """Layers come before outputs: they are where a difference begins."""
        arrays = self.machine.memories.arrays
        before = {memory: array.copy() for memory, array in arrays.items() if array.flags.writeable}
        began = time.process_time()
        outputs = self.machine.run(inputs)
        self.cpu_s += time.process_time() - began
        for memory, array in before.items():
            np.copyto(arrays[memory], array)
        in_layer = self._trace.first_difference(sample, inputs, reference)
        return in_layer or compare_outputs(sample, reference, outputs)


class KernelTester:
    """C kernels, which keep every value of the graph."""

    def __init__(self, name: ExecutorName, subject: Subject) -> None:
        self.executor = KernelExecutor(subject.container, kernel_backend(name))
        self.cpu_s = 0.0
        self._layers = {value: node.name for node in self.executor.graph.nodes for value in node.outputs}
        self.n_layers = len(self.executor.graph.nodes)

    def test(self, sample: int, inputs: Mapping[str, Array], reference: Reference) -> Difference | None:
        """All values, in the order of the nodes."""
        began = time.process_time()
        self.executor.run(inputs)
        self.cpu_s += time.process_time() - began
        values = self.executor.values
        found = (
            compare_value(sample, layer, name, values[name], reference.values[name])
            for name, layer in self._layers.items()
        )
        return next(filter(None, found), None)


@dataclass
class Trial:
    """One executor and what was found; it stops at its first difference or fault."""

    tester: Tester | None = None
    difference: Difference | None = None
    error: str = ""

    def step(self, sample: int, inputs: Mapping[str, Array], reference: Reference) -> None:
        """Test the next inference."""
        if self.tester is None or self.difference is not None or self.error:
            return
        try:
            self.difference = self.tester.test(sample, inputs, reference)
        except SimulatorFault as fault:
            self.error = str(fault)

    def document(self) -> dict[str, Any]:
        """The row of `verify --json`."""
        return {
            "ok": self.difference is None and not self.error,
            "cpu_s": round(self.tester.cpu_s, 3) if self.tester is not None else 0.0,
            "layers": self.tester.n_layers if self.tester is not None else 0,
            "first_difference": self.difference.to_json() if self.difference else None,
            "error": self.error or None,
        }


def compare_executors(
    subject: Subject, samples: Iterable[Mapping[str, Array]], wanted: Sequence[ExecutorName] | None
) -> dict[str, Any]:
    """Run every sample on the reference and on the wanted executors, by default on all that can be had."""
    graph = reference_graph(subject.container)
    reference = Reference(graph, [output for node in graph.nodes for output in node.outputs], subject.image)
    trials, skipped = open_trials(subject, wanted)
    n_samples, cpu_s = 0, 0.0
    with progress("comparing") as advance:
        for sample, inputs in enumerate(samples):
            began = time.process_time()
            reference(inputs)
            cpu_s += time.process_time() - began
            for trial in trials.values():
                trial.step(sample, inputs, reference)
            n_samples = sample + 1
            advance(n_samples, n_samples)
    itself = {"ok": True, "cpu_s": round(cpu_s, 3), "layers": len(graph.nodes), "first_difference": None, "error": None}
    rows = {name: trial.document() for name, trial in trials.items()}
    return {"samples": n_samples, "executors": {REFERENCE: itself, **rows}, "skipped": skipped}


def open_trials(subject: Subject, wanted: Sequence[ExecutorName] | None) -> tuple[dict[str, Trial], dict[str, str]]:
    """The executors by name, and why others are left out; one that was asked for is never left out."""
    trials, skipped = {}, {}
    for name in dict.fromkeys(wanted or ExecutorName):
        try:
            is_machine = name is ExecutorName.SIMULATOR
            trials[name.value] = Trial(SimulatorTester(subject) if is_machine else KernelTester(name, subject))
        except SimulatorFault as fault:
            trials[name.value] = Trial(error=str(fault))
        except (ToolchainError, UnsupportedOp, DoesNotFit) as error:
            if wanted:
                raise
            skipped[name.value] = error.message.partition("\n")[0]
    return trials, skipped
