"""A node on the Arm core: its operator and operands, bound to addresses once these are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from npuc.arm.kernel_call import KernelCall, kernel_calls
from npuc.arm.kernel_spec import SRAM
from npuc.arm.memory import MemoryMap, View
from npuc.arm.operand import ELEMENT_BYTES
from npuc.arm.parameters import decode_parameters
from npuc.graph.types import Array
from npuc.ops.conv import Conv
from npuc.ops.integer.conv import QConv
from npuc.ops.matmul import MatMul
from npuc.ops.op import Op

Address = Callable[[str], int]
"""Byte of SRAM at which a storage begins."""

Run = tuple[int, int]
"""First byte of SRAM and number of bytes."""


@dataclass(frozen=True)
class Stored:
    """An operand in SRAM: a view relative to the first byte of its storage."""

    storage: str
    view: View


@dataclass(frozen=True)
class Constant:
    """An operand in flash, its axes in memory as `order` says."""

    array: Array = field(repr=False, compare=False)
    order: tuple[int, ...]


@dataclass(frozen=True)
class BoundCall:
    """A call with final addresses and the SRAM that it reads and writes."""

    call: KernelCall
    reads: tuple[Run, ...]
    writes: tuple[Run, ...]


@dataclass(frozen=True)
class Bound:
    """The calls of a node, the constants that they read from flash, the scratch that they use."""

    calls: tuple[BoundCall, ...]
    constants: bytes
    scratch_bytes: int


@dataclass(frozen=True)
class ArmNode:
    """What a node on the Arm core works on. `scratch` is a storage of `scratch_bytes`; "" when the node needs none.

    `constants` is what the calls read from flash; `cycles` are those of each call, on the NPU's clock.
    """

    op: Op
    inputs: tuple[Stored | Constant, ...]
    output: Stored
    scratch: str = ""
    scratch_bytes: int = 0
    constants: bytes = field(default=b"", repr=False)
    cycles: tuple[int, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Storages that are there before the node runs, each once."""
        return tuple(dict.fromkeys(item.storage for item in self.inputs if isinstance(item, Stored)))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a convolution or a matrix product."""
        n_outputs = prod(self.output.view.shape)
        if isinstance(self.op, QConv | Conv):
            return n_outputs * prod(_shape(self.inputs[1])[1:])
        return n_outputs * _shape(self.inputs[0])[-1] if isinstance(self.op, MatMul) else 0

    def bind(self, address: Address, flash_start: int) -> Bound:
        """The calls with their constants at `flash_start`, a multiple of the alignment.

        ValueError: the kernels cannot express the operands.
        """
        start = address(self.scratch) if self.scratch else 0
        memory = MemoryMap(start, flash_start)
        inputs = [_bind(item, memory, address) for item in self.inputs]
        output = _bind(self.output, memory, address)
        calls = kernel_calls(self.op, memory, inputs, output)
        scratch = [(start, memory.n_sram_bytes)] if memory.n_sram_bytes else []
        reads = merge_runs(run for view in inputs if view.memory == SRAM for run in runs(view))
        writes = merge_runs([*runs(output), *scratch])
        touched = tuple(_touched(call, reads, writes) for call in calls)
        return Bound(touched, memory.flash.tobytes(), memory.n_sram_bytes)


def _shape(item: Stored | Constant) -> tuple[int, ...]:
    return item.array.shape if isinstance(item, Constant) else item.view.shape


def _bind(item: Stored | Constant, memory: MemoryMap, address: Address) -> View:
    if isinstance(item, Constant):
        return memory.constant(item.array, item.order)
    return replace(item.view, offset=address(item.storage) + item.view.offset)


def _touched(call: KernelCall, reads: tuple[Run, ...], writes: tuple[Run, ...]) -> BoundCall:
    """Copies and kernels that work element by element say themselves what they touch; any other kernel reads and writes
    all operands of its node."""
    values = decode_parameters(call.kernel, call.parameters)
    if call.kernel == "copy":
        places = [(values[side], values["size"], values[f"{side}_stride"], 1) for side in ("source", "destination")]
    elif call.kernel in ELEMENT_BYTES:
        widths = ELEMENT_BYTES[call.kernel](values)
        places = [(values[name]["at"], values[name]["size"], values[name]["stride"], n) for name, n in widths.items()]
    else:
        return BoundCall(call, reads, writes)
    *sources, destination = (_place_runs(*place) for place in places)
    return BoundCall(call, merge_runs([run for source in sources for run in source]), merge_runs(destination))


def _place_runs(block: dict[str, int], size: Sequence[int], strides: Sequence[int], item_bytes: int) -> list[Run]:
    return list(strided_runs(block["offset"], item_bytes, size, strides)) if block["memory"] == SRAM else []


def runs(view: View) -> Iterator[Run]:
    """The bytes of a view as runs."""
    return strided_runs(view.offset, view.item_bytes, view.shape, view.strides)


def strided_runs(offset: int, item_bytes: int, shape: Sequence[int], strides: Sequence[int]) -> Iterator[Run]:
    """Bytes of items at strides, some of them more than once where strides are 0 or overlap."""
    run = item_bytes
    starts = np.array([offset], np.int64)
    for size, stride in sorted(zip(shape, strides, strict=True), key=lambda axis: abs(axis[1])):
        if size == 1 or stride == 0:
            continue
        if stride == run and len(starts) == 1:
            run *= size
        else:
            starts = (starts[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return ((start, run) for start in starts.tolist())


def merge_runs(found: Iterator[Run] | Sequence[Run]) -> tuple[Run, ...]:
    """The same bytes, each once, in rising runs that do not touch."""
    merged: list[Run] = []
    for start, n_bytes in sorted(found):
        if merged and start <= merged[-1][0] + merged[-1][1]:
            first = merged[-1][0]
            merged[-1] = (first, max(merged[-1][0] + merged[-1][1], start + n_bytes) - first)
        else:
            merged.append((start, n_bytes))
    return tuple(merged)
