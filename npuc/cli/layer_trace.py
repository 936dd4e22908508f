"""The simulator, watched: what each instruction writes is compared with its layer's value in the reference graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from npuc.cli.check import Difference, Reference, compare_value
from npuc.cli.debug_map import DebugMap, layer_names
from simulator.errors import instruction_site
from simulator.execute import BINDERS, Binding, Step, Workspace
from simulator.machine import Machine
from simulator.operand import Access, Region, operand

if TYPE_CHECKING:
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array


@dataclass(frozen=True)
class Probe:
    """The part of a layer's value [n,c,h,w] that one instruction writes, bound to memory."""

    layer: str
    value: str
    region: Region
    access: Access

    def check(self, sample: int, values: Mapping[str, Array]) -> Difference | None:
        """Compare what is in memory with the value."""
        box = self.region
        want = values[self.value].reshape(*values[self.value].shape, *(1,) * (4 - values[self.value].ndim))
        want = want[box.n, box.c :, box.y :, box.x :][: box.channels, : box.height, : box.width]
        found = compare_value(sample, self.layer, self.value, self.access.read().transpose(2, 0, 1), want)
        if found is None:
            return None
        c, y, x = (first + i for first, i in zip((box.c, box.y, box.x), found.index, strict=True))
        index = (box.n, c, y, x)[: values[self.value].ndim]
        return Difference(found.sample, found.output, index, found.got, found.expected, found.layer)


class LayerTrace:
    """Second bindings of a machine's instructions, each with the probe of what it writes.

    Layers that a pass made behind the reference graph have no value in it, and no probe.
    """

    def __init__(self, machine: Machine, names: DebugMap, graph: Graph) -> None:
        layers, outputs, workspace = layer_names(names), stored_outputs(names, graph), Workspace()
        self.machine = machine
        self._steps: list[tuple[Step, Probe | None]] = []
        for index in range(len(machine.program.code)):
            binder = BINDERS.get(machine.program.spec(index).mnemonic)
            if binder is not None:
                binding, layer = bind(machine, workspace, index), layers.get(index, "")
                step = binder(binding)
                self._steps.append((step, probe(binding, layer, outputs[layer], graph) if layer in outputs else None))

    @property
    def n_layers(self) -> int:
        """Layers with a probe."""
        return len({probe.layer for _, probe in self._steps if probe is not None})

    def first_difference(self, sample: int, inputs: Mapping[str, Array], reference: Reference) -> Difference | None:
        """Run one inference on what the memories hold, up to the first instruction that writes something else."""
        self.machine.write_inputs(inputs)
        for step, watched in self._steps:
            step()
            found = watched.check(sample, reference.values) if watched is not None else None
            if found is not None:
                return found
        return None


def stored_outputs(names: DebugMap, graph: Graph) -> dict[str, str]:
    """Output of each node that the program has in memory, by the node's name."""
    stored = {row["name"] for row in names.get("tensors", [])}
    return {node.name: node.outputs[0] for node in graph.nodes if node.outputs[0] in stored}


def bind(machine: Machine, workspace: Workspace, index: int) -> Binding:
    """What a binder gets to bind the instruction once more."""
    program = machine.program
    site = instruction_site(index, program.spec(index).mnemonic)
    lanes = program.target.architecture.cout_lanes
    values, descriptor = program.values(index), program.descriptor(index)
    return Binding(machine.memories, workspace, site, values, descriptor, lanes, strict=False)


def probe(binding: Binding, layer: str, value: str, graph: Graph) -> Probe | None:
    """What the instruction writes of a value; None for a copy, and where its tensor is not the value's image."""
    if "ofm_channels" not in binding.descriptor:
        return None
    tensor, box = operand(binding.descriptor, "ofm"), binding.region
    shape = graph.type_of(value).shape
    n, c, height, width = (*shape, 1, 1, 1, 1)[:4]
    is_inside = box.n < n and box.y + box.height <= height and box.x + box.width <= width
    if len(shape) not in (2, 4) or tensor.channels != c or not is_inside:
        return None
    return Probe(layer, value, box, Access(binding.memories, binding.site, tensor, box))
