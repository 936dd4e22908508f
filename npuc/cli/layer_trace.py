"""The simulator, watched: what each row writes is compared with its layer's value in the reference graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from isa.descriptors import Memory
from npuc.cli.check import Difference, Reference, compare_value
from npuc.cli.debug_map import DebugMap, layer_names
from simulator.execute import BINDERS, Binding, Step, Workspace
from simulator.machine import Machine
from simulator.operand import Access, Operand, Region, operand

if TYPE_CHECKING:
    from npuc.graph.graph import Graph
    from npuc.graph.types import Array


class Probe(Protocol):
    """What a row has written, bound to memory."""

    @property
    def layer(self) -> str:
        """The layer that the row computes."""

    def check(self, sample: int, values: Mapping[str, Array]) -> Difference | None:
        """Compare what is in memory with the values of the reference."""


@dataclass(frozen=True)
class RegionProbe:
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


@dataclass(frozen=True)
class TensorProbe:
    """A whole value, once the last call of its layer has run."""

    layer: str
    value: str
    tensor: Array

    def check(self, sample: int, values: Mapping[str, Array]) -> Difference | None:
        """Compare what is in memory with the value."""
        return compare_value(sample, self.layer, self.value, self.tensor, values[self.value])


class LayerTrace:
    """Second bindings of a machine's rows, each with the probe of what it writes.

    Layers that a pass made behind the reference graph have no value in it, and no probe.
    """

    def __init__(self, machine: Machine, names: DebugMap, graph: Graph) -> None:
        layers, outputs = layer_names(names, len(machine.program.code)), stored_outputs(names, graph)
        last = {layer: row for row, layer in layers.items() if machine.program.call(row) is not None}
        self.machine, self._workspace = machine, Workspace()
        self._tensors = {row["name"]: row for row in names.get("tensors", [])}
        self._by_shape: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}
        for tensor in self._tensors.values():
            self._by_shape.setdefault(tuple(tensor.get("shape", ())), []).append(tensor)
        self._steps: list[tuple[Step, Probe | None]] = []
        for row, step in machine.steps.items():
            layer = layers.get(row, "")
            value = outputs.get(layer)
            if machine.program.call(row) is None:
                self._steps.append(self._instruction(row, layer, value, graph))
            else:
                is_whole = value is not None and last.get(layer) == row
                whole = tensor_probe(machine, self._tensors[value], layer, value) if value and is_whole else None
                self._steps.append((step, whole))

    def _instruction(self, row: int, layer: str, value: str | None, graph: Graph) -> tuple[Step, Probe | None]:
        binding = bind(self.machine, self._workspace, row)
        step = BINDERS[self.machine.program.spec(row).mnemonic](binding)
        if value is None:
            return step, None
        shape = graph.type_of(value).shape
        return step, probe(binding, layer, value, shape, self._by_shape.get(shape, ()))

    @property
    def n_layers(self) -> int:
        """Layers with a probe."""
        return len({probe.layer for _, probe in self._steps if probe is not None})

    def first_difference(self, sample: int, inputs: Mapping[str, Array], reference: Reference) -> Difference | None:
        """Run one inference on what the memories hold, up to the first row that writes something else."""
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
    lanes = program.target.architecture.cout_lanes
    values, descriptor = program.values(index), program.descriptor(index)
    return Binding(machine.memories, workspace, program.site(index), values, descriptor, lanes, strict=False)


def tensor_probe(machine: Machine, row: Mapping[str, Any], layer: str, value: str) -> Probe | None:
    """The value of a layer on the Arm core as it lies in sram, which a row of the map describes.

    None for a line buffer or channel window, for blocks of channels, and where the map does not describe bytes of sram.
    """
    sram = machine.memories.arrays[Memory.SRAM]
    if row.get("block") or row.get("ring_rows") or row.get("window"):
        return None
    try:
        kind = np.dtype(row["dtype"]).newbyteorder("<")
        return TensorProbe(layer, value, np.ndarray(row["shape"], kind, sram.data, row["address"], row["strides"]))
    except (KeyError, TypeError, ValueError):
        return None


def probe(
    binding: Binding, layer: str, value: str, shape: tuple[int, ...], rows: Iterable[Mapping[str, Any]]
) -> Probe | None:
    """What the instruction writes of a value of this shape; None for a copy, and where its tensor is not the image.

    `rows` of the map are tensors of that shape: the value, or what is still to be converted to it.
    """
    if "ofm_channels" not in binding.descriptor:
        return None
    tensor, box = operand(binding.descriptor, "ofm"), binding.region
    n, c, height, width = (*shape, 1, 1, 1, 1)[:4]
    is_inside = box.n < n and box.y + box.height <= height and box.x + box.width <= width
    if len(shape) not in (2, 4) or tensor.channels != c or not is_inside:
        return None
    if not any(_has_strides(tensor, row, shape) for row in rows):
        return None
    return RegionProbe(layer, value, box, Access(binding.memories, binding.site, tensor, box))


def _has_strides(tensor: Operand, row: Mapping[str, Any], shape: tuple[int, ...]) -> bool:
    """Whether channels, rows and pixels of the operand are the axes of a tensor of this shape behind the first.

    A kernel may compute in another space than the image's, as a Softmax over the last axis does.
    """
    strides, block = row.get("strides", ()), row.get("block", 0)
    steps = (tensor.block if block else tensor.bytes_each, tensor.row, tensor.pixel)
    lengths = (-(-shape[1] // block) if block else shape[1], *shape[2:])
    return len(strides) == len(shape) and all(
        length == 1 or stride == step for length, stride, step in zip(lengths, strides[1:], steps, strict=False)
    )
