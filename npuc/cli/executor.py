"""What can run a program: the simulator, and the C kernels on this machine or on an emulated Arm core."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from npuc.cli.check import reference_graph

if TYPE_CHECKING:
    from isa.container import Container, IoEntry
    from npuc.firmware.graph_runner import Backend
    from npuc.firmware.host import HostKernels
    from npuc.graph.types import Array
    from simulator.arm_calls import Kernels
    from simulator.machine import Machine
    from simulator.program import Program as Loaded

KernelImage = Annotated[
    Path | None,
    typer.Option(
        "--kernels",
        metavar="F.elf",
        help="Image whose kernels run the Arm calls; default: C kernels, built on first use.",
    ),
]
AARCH64_MACHINE = 183
"""e_machine of ELF files for aarch64."""


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


def open_machine(program: Loaded, sram_bytes: int | None = None, image: Path | None = None, **options: Any) -> Machine:
    """The simulator's machine, with kernels when the program has Arm calls; `options` are those of `Machine`.

    SimulatorFault for a call whose kernel would leave the memories of the machine, and with it the process.
    """
    from npuc.firmware.host import HostKernels
    from simulator.machine import Machine

    kernels = call_kernels(image) if program.calls else None
    machine = Machine(program, sram_bytes, kernels=kernels, **options)
    if isinstance(kernels, HostKernels):
        require_bounded(machine, kernels)
    return machine


def require_bounded(machine: Machine, kernels: HostKernels) -> None:
    """SimulatorFault for the first call of a program that does not keep to the memories, whatever its ranges say."""
    from isa.descriptors import Memory

    program = machine.program
    calls = [(call.kernel, call.version, call.parameters) for call in program.calls]
    stray = kernels.stray_call(calls, len(machine.memories.arrays[Memory.SRAM]), program.flash.tobytes())
    if stray is not None:
        index, how = stray
        hint = "the program is damaged, or from another release: compile it again"
        raise program.site(len(program.code) + index).fault(f"its kernel {how}", hint)


def call_kernels(image: Path | None) -> Kernels:
    """What runs Arm calls: the image, else the kernels on this machine, else on an emulated Cortex-M33.

    ToolchainError when there is neither an image nor a compiler.
    """
    from npuc.firmware.toolchain import STAGE, ToolchainError
    from simulator.arm_kernels import ArmKernels

    if image is not None:
        return ArmKernels(image, image_core(image))
    reasons = []
    for name in (ExecutorName.HOST, ExecutorName.M33):
        try:
            return kernel_backend(name)
        except ToolchainError as error:
            reasons.append(error.message)
    message = f"the program has arm calls, and nothing can run their kernels: {'; '.join(reasons)}"
    raise ToolchainError(message, stage=STAGE, hint="install a C compiler, or give an image with --kernels F.elf")


def image_core(image: Path) -> str:
    """The core that an ELF file is for, by its machine; what is no ELF file is found out by whoever loads it."""
    with image.open("rb") as file:
        machine = int.from_bytes(file.read(20)[18:], "little")
    return CORES[ExecutorName.AARCH64 if machine == AARCH64_MACHINE else ExecutorName.M33]
