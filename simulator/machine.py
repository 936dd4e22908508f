"""The machine: memories and a program bound to them; runs one inference after the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isa.container import IoEntry
from isa.state import StateEntry, decode_states
from simulator.arm_calls import Kernels, bind_call, require_kernels
from simulator.errors import SimulatorFault, Site
from simulator.execute import BINDERS, Binding, Step, Workspace
from simulator.memory import Array, Bytes, Memories, Pattern
from simulator.order import execution_order
from simulator.program import Program
from simulator.strict import require_order


class Machine:
    """A program bound to memories of its own.

    Construction binds every instruction in program order: an access out of range, a read of bytes that nothing has
    written, a constant that the machine cannot use and an instruction that waits for a later one are a SimulatorFault
    here, before anything runs. `strict` adds whatever could go wrong under another timing (simulator/strict.py), and
    makes an accumulator that leaves 32 bits a fault (without it, it wraps) and Arm calls that leave their ranges.
    `layers` names the layer of a row in messages. Memories keep their contents from run to run; states are set when the
    machine is made and by `reset`. `kernels` run the Arm calls. `sram` is memory that the machine shares with its
    owner, who then sets the states and runs the calls.
    """

    def __init__(
        self,
        program: Program,
        sram_bytes: int | None = None,
        *,
        strict: bool = False,
        layers: Mapping[int, str] | None = None,
        sram: Bytes | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        board = program.target.board
        n_sram = board.sram_bytes if sram_bytes is None else sram_bytes
        if strict:
            require_order(program, layers or {}, n_sram if sram is None else len(sram))
        if sram is None:
            require_kernels(len(program.calls), kernels)
        order = execution_order(program)
        self.program = program
        self.memories = Memories(program.flash, n_sram if sram is None else sram, board.dram_bytes)
        self.inputs = {entry.name: entry for entry in program.container.io if entry.direction == "in"}
        self.outputs = {entry.name: entry for entry in program.container.io if entry.direction == "out"}
        self._input_views = {name: self._io_view(entry) for name, entry in self.inputs.items()}
        self._states = [self._bind_state(entry) for entry in decode_states(program.container.state)]
        workspace = Workspace()
        steps = {row: self._bind(row, workspace, strict, layers or {}, kernels) for row in order}
        self.steps = {row: step for row, step in steps.items() if step is not None}
        """What there is to do, by row, in the order of execution."""
        self._output_views = {name: self._io_view(entry) for name, entry in self.outputs.items()}
        if sram is None:
            self._write_states()

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference: arrays in stored type and source axis order, by name, to arrays of the same kind."""
        self.write_inputs(inputs)
        self.execute()
        return {name: view.copy() for name, view in self._output_views.items()}

    def execute(self) -> None:
        """Everything, on what the memories hold."""
        for step in self.steps.values():
            step()

    def write_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Put every input into memory; SimulatorFault for a missing or unknown name, a wrong type or shape."""
        if inputs.keys() != self.inputs.keys():
            raise SimulatorFault(f"inputs are {_names(inputs)}, the program has {_names(self.inputs)}")
        for name, view in self._input_views.items():
            array = inputs[name]
            if array.dtype != view.dtype or array.shape != view.shape:
                found, wanted = (f"{a.dtype} {list(a.shape)}" for a in (array, view))
                raise SimulatorFault(f"input {name} is {found}, the program wants {wanted}")
            np.copyto(view, array)

    def reset(self) -> None:
        """Zero sram and dram, then give the states their initial contents."""
        self.memories.clear()
        self._write_states()

    def _write_states(self) -> None:
        for view, initial in self._states:
            np.copyto(view, initial)

    def _bind_state(self, entry: StateEntry) -> tuple[Array, Array]:
        pattern = Pattern(entry.address, (len(entry.initial),), (1,))
        return self.memories.write_view(Site("state"), pattern), np.frombuffer(entry.initial, np.uint8)

    def _io_view(self, entry: IoEntry) -> Array:
        bind = self.memories.write_view if entry.direction == "in" else self.memories.read_view
        site = Site(f"{'input' if entry.direction == 'in' else 'output'} {entry.name}")
        kind = np.dtype(entry.dtype).newbyteorder("<")
        strides = np.cumprod([kind.itemsize, *entry.shape[:0:-1]])[::-1].tolist() if entry.shape else []
        return bind(site, Pattern(entry.address, entry.shape, tuple(strides), kind))

    def _bind(
        self, row: int, workspace: Workspace, strict: bool, layers: Mapping[int, str], kernels: Kernels | None
    ) -> Step | None:
        program, site, call = self.program, self.program.site(row, layers), self.program.call(row)
        if call is not None:
            return bind_call(self.memories, site, call, kernels, strict=strict)
        binder = BINDERS.get(program.spec(row).mnemonic)
        if binder is None:
            return None
        values, descriptor = program.values(row), program.descriptor(row)
        lanes = program.target.architecture.cout_lanes
        return binder(Binding(self.memories, workspace, site, values, descriptor, lanes, strict))


def _names(mapping: Mapping[str, object]) -> str:
    return ", ".join(mapping) or "none"
