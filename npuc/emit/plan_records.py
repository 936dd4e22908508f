"""Descriptors of plans: which of them are equal, and their lengths, without writing any bytes.

A descriptor is a template, which is the same in all plans of a network, and a few addresses.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from isa.container import CONSTANTS_OFFSET
from isa.descriptors import LAYER, Memory, address
from isa.record import encode_record
from npuc.lower.kernel import PARAMETERS, Kernel
from npuc.task.fields import layer_fields
from npuc.task.origin import shared_records
from npuc.task.task import Compute, Plan

ADDRESSES = ("ofm_base", "ifm_base", "ifm2_base", "scales", "table")
"""Fields that hold an address."""

Record = Mapping[str, int]
Identified = tuple[Hashable, int]
"""What a descriptor is known by, and its stored bytes."""


@dataclass(frozen=True)
class _Template:
    """Number of the fields that hold no address; of the others the storage and the offset in it ("": 0 and none)."""

    number: int
    places: tuple[tuple[str, int], ...]


class Records:
    """Remembers templates and lengths."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._templates: dict[Hashable, tuple[Kernel, _Template]] = {}
        self._lengths: dict[Hashable, int] = {}

    def of(self, plan: Plan, base: Mapping[str, int]) -> PlanRecords:
        """The descriptors of a plan whose buffers lie at `base`."""
        return PlanRecords(self, plan, base)

    def template(self, kernel: Kernel, rings: Mapping[str, int], block: tuple[int, int, int]) -> _Template:
        """Of a kernel's tasks with one block shape, with rows of the line buffers `rings` by storage."""
        key = id(kernel), block, *(rings.get(item.storage, 0) for item in kernel.operands)
        if key not in self._templates:
            record, parameters = layer_fields(kernel, lambda _: 0, rings, 0, block), kernel.parameters
            tensors = (kernel.described.get(prefix) for prefix in ("ofm", "ifm", "ifm2"))
            sources = [item.storage if item is not None else "" for item in tensors]
            sources += [PARAMETERS if present else "" for present in (parameters.scales, parameters.table)]
            offsets = [record.get(name, 0) for name in ADDRESSES]
            template = _Template(self.number(record), tuple(zip(sources, offsets, strict=True)))
            self._templates[key] = kernel, template  # the kernel stays, and its id with it
        return self._templates[key][1]

    def number(self, record: Record) -> int:
        """Of the fields that hold no address."""
        fields = tuple(value for name, value in record.items() if name not in ADDRESSES)
        return self._numbers.setdefault(fields, len(self._numbers))

    def length(self, template: int, addresses: tuple[int, ...], record: Record | None) -> int | None:
        """Stored bytes, which depend on which fields are zero; None when it is not known and there is no record."""
        key = template, *map(bool, addresses)
        if key not in self._lengths and record is not None:
            self._lengths[key] = len(encode_record(LAYER, record, trim=True))
        return self._lengths.get(key)


class PlanRecords:
    """Descriptors of one plan."""

    def __init__(self, records: Records, plan: Plan, base: Mapping[str, int]) -> None:
        self._records, self._plan = records, plan
        self._addresses = {name: address(Memory.SRAM, at) for name, at in base.items()}
        self._rings = {buffer.name: buffer.ring_rows for buffer in plan.buffers if buffer.ring_rows}
        self._known: dict[tuple[str, tuple[int, int, int]], Identified] = {}
        for key, (record, _) in shared_records(plan, self._record).items():
            self._known[key] = self._identified(plan.kernels[key[0]], record)

    def of(self, kernel: Kernel, task: Compute) -> Identified:
        """The descriptor of a kernel's tasks with one block shape."""
        key = task.kernel, task.block
        if key not in self._known:
            template = self._records.template(kernel, self._rings, task.block)
            head = self._head(kernel)
            addresses = tuple(
                (head if source == PARAMETERS else self._addresses[source]) + offset if source else 0
                for source, offset in template.places
            )
            length = self._records.length(template.number, addresses, None)
            if length is None:
                self._known[key] = self._identified(kernel, self._record(kernel, task))
            else:
                self._known[key] = (template.number, addresses, self._owner(kernel)), length
        return self._known[key]

    def _identified(self, kernel: Kernel, record: Record) -> Identified:
        number, addresses = self._records.number(record), tuple(record.get(name, 0) for name in ADDRESSES)
        length = self._records.length(number, addresses, record)
        return (number, addresses, self._owner(kernel)), length or 0

    def _record(self, kernel: Kernel, task: Compute) -> Record:
        return layer_fields(kernel, self._addresses.__getitem__, self._rings, self._head(kernel), task.block)

    def _owner(self, kernel: Kernel) -> str:
        """Streamed kernels have descriptors of their own."""
        return kernel.owner if self._plan.is_streamed(kernel) else ""

    def _head(self, kernel: Kernel) -> int:
        """Address of a kernel's parameters; of those in flash only the memory."""
        n_bytes = kernel.parameters.head_bytes
        if not n_bytes:
            return 0
        if kernel.owner in self._plan.streamed:
            return address(Memory.FLASH, CONSTANTS_OFFSET)
        name, offset = self._plan.locate(kernel.owner, 0, n_bytes)
        return self._addresses[name] + offset
