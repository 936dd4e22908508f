"""What can run a program: the simulator, and the C kernels on this machine or on an emulated Arm core."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from npuc.cli.check import reference_graph

if TYPE_CHECKING:
    from isa.container import Container, IoEntry
    from npuc.firmware.graph_runner import Backend
    from npuc.graph.types import Array


class ExecutorName(StrEnum):
    """Everything that runs programs."""

    SIMULATOR = "simulator"
    HOST = "host"
    M4 = "m4"
    M33 = "m33"
    AARCH64 = "aarch64"


CORES = {ExecutorName.M4: "cortex-m4", ExecutorName.M33: "cortex-m33", ExecutorName.AARCH64: "aarch64"}
"""What the simulator calls the emulated cores."""


class Executor(Protocol):
    """Runs one inference after the other, in stored types; states pass from one to the next."""

    @property
    def inputs(self) -> Mapping[str, IoEntry]:
        """The inputs by name."""

    @property
    def outputs(self) -> Mapping[str, IoEntry]:
        """The outputs by name."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the next inference."""

    def reset(self) -> None:
        """Start again from the initial states."""


class KernelExecutor:
    """The reference graph of a program by C kernels; `values` has every value that the last run computed.

    UnsupportedOp: the graph has operators without a kernel.
    """

    def __init__(self, container: Container, backend: Backend) -> None:
        from npuc.firmware.graph_runner import lower_to_kernels

        self.inputs = {entry.name: entry for entry in container.io if entry.direction == "in"}
        self.outputs = {entry.name: entry for entry in container.io if entry.direction == "out"}
        self.values: dict[str, Array] = {}
        self.graph = reference_graph(container)
        self._kernels = lower_to_kernels(self.graph)
        self._backend = backend

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the next inference."""
        from npuc.firmware.graph_runner import run_program

        states = {state.input: self.values[state.output] for state in self.graph.states if self.values}
        computed = [output for node in self.graph.nodes for output in node.outputs]
        self.values = run_program(self._kernels, {**inputs, **states}, self._backend, computed)
        return {name: self.values[name] for name in self.outputs}

    def reset(self) -> None:
        """Start again from the initial states."""
        self.values = {}


def kernel_backend(name: ExecutorName) -> Backend:
    """The kernels on this machine or on a core, built on first use; ToolchainError when no compiler is found."""
    if name is ExecutorName.HOST:
        from npuc.firmware.host import host_kernels

        return host_kernels()
    from npuc.firmware.toolchain import build_kernels
    from simulator.arm_kernels import ArmKernels

    return ArmKernels(build_kernels(CORES[name]), CORES[name])
