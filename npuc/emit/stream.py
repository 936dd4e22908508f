"""The instruction stream: tasks become instructions, their descriptors are loaded into slots as needed.

Calls of the Arm core stand beside the stream, in the same order of tasks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from isa.codec import Instruction, encode
from isa.container import CONSTANTS_OFFSET, descriptors_offset
from isa.descriptors import DMA, LAYER, Memory, address
from isa.instructions import Queue
from isa.record import encode_record
from isa.target import Target
from npuc.emit.waits import Conditions, WaitTracker
from npuc.errors import InvalidGraph
from npuc.lower.kernel import ALIGNMENT, Kernel
from npuc.task.accesses import accesses
from npuc.task.fields import fill_fields, first_byte, layer_fields, region_fields
from npuc.task.origin import shared_records
from npuc.task.task import Buffer, Call, Compute, Load, Plan, Task, weight_bytes

NO_RECORD: Mapping[str, int] = {}
WAITS = {queue: f"wait.{queue.name.lower().replace('_', '-')}" for queue in Queue}


@dataclass(frozen=True)
class Pending:
    """A call that task number `task` makes once its conditions hold; `waits_only`: what that call cannot hold."""

    task: int
    conditions: tuple[tuple[Queue, int], ...]
    cycles: int
    waits_only: bool = False


@dataclass
class Stream:
    """Encoded sections; instruction i belongs to task origin[i] and captures the descriptor fields records[i].

    `calls` are those of the Arm core, in order; the constants of node n begin at byte arm_constants[n] of the program.
    """

    constants: bytes
    descriptors: bytearray = field(default_factory=bytearray)
    code: bytearray = field(default_factory=bytearray)
    origin: list[int] = field(default_factory=list)
    records: list[Mapping[str, int]] = field(default_factory=list)
    calls: list[Pending] = field(default_factory=list)
    arm_constants: Mapping[str, int] = field(default_factory=dict)

    @property
    def overhead_bytes(self) -> int:
        """Bytes of instructions and descriptors together."""
        return len(self.code) + len(self.descriptors)


class Emitter:
    """Writes one plan; use `emit_stream`."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan, self.target = plan, target
        self.images, constants = flash_images(plan)
        arm_constants, constants = with_arm_constants(plan, constants)
        self.stream = Stream(constants, arm_constants=arm_constants)
        top = max((buffer_end(buffer) for buffer in plan.buffers), default=0)
        self.waits = WaitTracker(top)
        self.rings = {buffer.name: buffer.ring_rows for buffer in plan.buffers}
        self.slots: OrderedDict[bytes, int] = OrderedDict()
        self.known: dict[bytes, int] = {}
        self.shared = shared_records(plan, self._record)

    def run(self) -> Stream:
        """Emit every task, then the end."""
        for index, task in enumerate(self.plan.tasks):
            self._task(index, task)
        self._append(len(self.plan.tasks) - 1, Instruction("end", {}))
        return self.stream

    def _task(self, index: int, task: Task) -> None:
        reads, writes = accesses(self.plan, task)
        extra, conditions = self.waits.visit(
            task.queue, map(self._physical, reads), map(self._physical, writes), **order_of(task)
        )
        if isinstance(task, Call):
            self._call(index, task, extra, conditions)
            return
        if isinstance(task, Load):
            values, mnemonic, record = self._load(task), "dma.load", NO_RECORD
        else:
            values, record = self._compute(index, task)
            mnemonic = task.mnemonic
        if extra:
            self._append(index, Instruction(WAITS[task.queue], condition_fields(extra)))
        values |= condition_fields(conditions)
        self._append(index, Instruction(mnemonic, values), record)

    def _call(self, index: int, task: Call, extra: Conditions, conditions: Conditions) -> None:
        node = self.plan.kernels[task.kernel].arm
        if extra:
            self.stream.calls.append(Pending(index, tuple(extra), 0, waits_only=True))
        self.stream.calls.append(Pending(index, tuple(conditions), node.cycles[task.index] if node is not None else 0))

    def _append(self, index: int, instruction: Instruction, record: Mapping[str, int] = NO_RECORD) -> None:
        self.stream.code += encode(instruction)
        self.stream.origin.append(index)
        self.stream.records.append(record)

    def _physical(self, interval: tuple[str, int, int]) -> tuple[int, int]:
        name, low, high = interval
        base = placed(self.plan.buffer[name])
        return base + low, base + high

    def _sram(self, storage: str) -> int:
        return address(Memory.SRAM, placed(self.plan.buffer[storage]))

    def _load(self, task: Load) -> dict[str, int]:
        return {
            "source": address(Memory.FLASH, self.images[task.buffer] + task.start),
            "destination": self._sram(task.buffer) + task.start,
            "length": task.stop - task.start,
        }

    def _compute(self, index: int, task: Compute) -> tuple[dict[str, int], Mapping[str, int]]:
        kernel = self.plan.kernels[task.kernel]
        if task.mnemonic == "dma.fill":
            region = fill_fields(kernel.ofm, task)
            slot = self._slot(index, encode_record(DMA, region).ljust(32, b"\0"))
            start = self._sram(kernel.ofm.storage) + first_byte(kernel.ofm, task)
            return {"slot": slot, "destination": start, "value": kernel.fields["value"]}, region
        record, origin = self.shared.get((task.kernel, task.block)) or (self._record(kernel, task), {})
        slot = self._slot(index, encode_record(LAYER, record, trim=True))
        values = {**region_fields(task), **origin, "slot": slot}
        if kernel.computed_weights and kernel.ifm2 is not None:
            values["weights"] = self._sram(kernel.ifm2.storage) + first_byte(kernel.ifm2, task)
        elif kernel.parameters.weights:
            values["weights"] = self._parameters(kernel, *weight_bytes(kernel, task))
            values["coded_words"] = kernel.parameters.piece(task.c).coded_words
        return values, record

    def _record(self, kernel: Kernel, task: Compute) -> Mapping[str, int]:
        head = self._parameters(kernel, 0, kernel.parameters.head_bytes)
        return layer_fields(kernel, self._sram, self.rings, head, task.block)

    def _parameters(self, kernel: Kernel, start: int, stop: int) -> int:
        """Address of parameter bytes [start, stop) of a kernel: where they were loaded, or in flash."""
        if start == stop:
            return 0
        if kernel.owner in self.plan.streamed:
            return address(Memory.FLASH, self.images[kernel.owner] + start)
        name, offset = self.plan.locate(kernel.owner, start, stop)
        return self._sram(name) + offset

    def _slot(self, index: int, record: bytes) -> int:
        """Slot of a descriptor; loads it into the least recently used one when it is not in the table."""
        if record in self.slots:
            self.slots.move_to_end(record)
            return self.slots[record]
        n_slots = self.target.architecture.descriptor_slots
        slot = len(self.slots) if len(self.slots) < n_slots else self.slots.popitem(last=False)[1]
        self.slots[record] = slot
        if record not in self.known:
            self.known[record] = len(self.stream.descriptors)
            self.stream.descriptors += record
        start = descriptors_offset(len(self.stream.constants)) + self.known[record]
        conditions = self.waits.loads_before() if self.plan.descriptors_wait else []
        values = {"slot": slot, "words": len(record) // 8, "address": address(Memory.FLASH, start)}
        values |= condition_fields(conditions)
        self._append(index, Instruction("desc.load", values))
        return slot


def order_of(task: Task) -> dict[str, str]:
    """What `WaitTracker.visit` is told of a task beside its bytes."""
    return {"after": task.after} if isinstance(task, Load) else {"kernel": task.kernel}


def condition_fields(conditions: Conditions) -> dict[str, int]:
    """Header fields of up to three conditions; counts are stored modulo 2**16."""
    values: dict[str, int] = {}
    for i, (queue, count) in enumerate(conditions):
        values |= {f"wait{i}_queue": int(queue), f"wait{i}_count": count & 0xFFFF}
    return values


def placed(buffer: Buffer) -> int:
    """Address of a buffer; a plan that is emitted has one for each."""
    if buffer.address is None:
        raise InvalidGraph(f"buffer {buffer.name} has no address", stage="emit")
    return buffer.address


def buffer_end(buffer: Buffer) -> int:
    """First byte behind the buffer."""
    return placed(buffer) + buffer.n_bytes


def flash_images(plan: Plan) -> tuple[dict[str, int], bytes]:
    """Flash offsets of the images of parameters buffers and streamed kernels, and the constants section with them."""
    offsets: dict[str, int] = {}
    constants = bytearray()
    stored = {name: kernel.parameters.image() for name, kernel in plan.kernels.items()}
    images = {
        buffer.name: b"".join(stored[part.kernel][part.start : part.stop] for part in buffer.parts)
        for buffer in plan.buffers
        if buffer.parts
    }
    images |= {name: image for name, image in stored.items() if name in plan.streamed}
    for name, image in images.items():
        offsets[name] = CONSTANTS_OFFSET + len(constants)
        constants += image
    return offsets, bytes(constants)


def with_arm_constants(plan: Plan, constants: bytes) -> tuple[dict[str, int], bytes]:
    """Flash offsets of what nodes on the Arm core read, and the constants followed by it; equal bytes once."""
    offsets: dict[str, int] = {}
    known: dict[bytes, int] = {}
    for name, kernel in plan.kernels.items():
        if kernel.arm is not None:
            content = kernel.arm.constants
            if content not in known:
                constants += bytes(-len(constants) % ALIGNMENT)
                known[content] = CONSTANTS_OFFSET + len(constants)
                constants += content
            offsets[name] = known[content]
    return offsets, constants


def emit_stream(plan: Plan, target: Target) -> Stream:
    """Instructions, descriptors and constants of a placed plan."""
    return Emitter(plan, target).run()
