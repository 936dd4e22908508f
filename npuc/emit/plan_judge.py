"""Cycles and energy of many plans of one network: the timing of `npuc.emit.judge`, without writing any bytes.

A search looks at hundreds of plans whose instructions are mostly the same. What an instruction costs does not depend on
where its buffers lie, as they are aligned to port words; so it is worked out once, for all plans. Only the conditions
and the descriptors that a plan loads follow from its addresses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from isa.container import CONSTANTS_OFFSET
from isa.descriptors import LAYER, Memory, address
from isa.instructions import BY_MNEMONIC, CONDITIONS, NO_CONDITION
from isa.record import encode_record
from isa.target import Energy, Target
from isa.timing import Schedule, Work, simulate, spent, usage_of, work_of
from npuc.emit.stream import WAITS, buffer_end, order_of, placed
from npuc.emit.waits import Conditions, WaitTracker
from npuc.errors import InvalidGraph
from npuc.graph.types import Array
from npuc.lower.kernel import Kernel
from npuc.lower.operand import Operand
from npuc.task.accesses import accesses
from npuc.task.fields import fill_fields, layer_fields, region_fields
from npuc.task.origin import shared_records
from npuc.task.task import Call, Compute, Load, Plan, Task, weight_bytes

DMA_RECORD_BYTES = 32
_WORK = tuple(item.name for item in fields(Work))


class Judge:
    """Remembers what instructions cost on a target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lengths = DescriptorLengths()
        self._place: dict[Hashable, int] = {}
        self._costs = np.zeros((0, len(_WORK)), np.int64)

    def cycles(self, plan: Plan) -> int:
        """Total cycles of a placed plan; InvalidGraph when it cannot finish."""
        return self._run(plan)[1]

    def picojoules(self, plan: Plan, energy: Energy) -> int:
        """What a placed plan takes; InvalidGraph when it cannot finish."""
        return spent(usage_of(*self._run(plan)), energy).predicted_pj

    def _run(self, plan: Plan) -> tuple[Work, int]:
        """What its instructions do, and total cycles."""
        sketch = _Sketcher(plan, self._target, self._lengths).run()
        self._price(dict(zip(sketch.keys, sketch.rows, strict=True)))
        rows = self._costs[[self._place[key] for key in sketch.keys]]
        work = Work(**{name: rows[:, i] for i, name in enumerate(_WORK)})
        work = work.with_arm(np.array(sketch.call_cycles, np.int64))
        timeline = simulate(work, sketch.schedule(), self._target)
        if timeline.deadlock is not None:
            raise InvalidGraph(f"the plan cannot finish: {timeline.deadlock}", stage="schedule")
        return work, timeline.total_cycles

    def _price(self, rows: Mapping[Hashable, Mapping[str, int]]) -> None:
        new = {key: row for key, row in rows.items() if key not in self._place}
        if not new:
            return
        names = dict.fromkeys(name for row in new.values() for name in row)
        columns = {name: np.array([row.get(name, 0) for row in new.values()], np.int64) for name in names}
        work = work_of(columns, self._target)
        self._place |= {key: len(self._costs) + i for i, key in enumerate(new)}
        self._costs = np.vstack([self._costs, np.stack([getattr(work, name) for name in _WORK], axis=1)])


@dataclass
class _Sketch:
    """Instructions in order: what their cost depends on, as a key and as columns, their queue and conditions; then the
    calls of the Arm core: cycles and conditions."""

    keys: list[Hashable] = field(default_factory=list)
    rows: list[Mapping[str, int]] = field(default_factory=list)
    queues: list[int] = field(default_factory=list)
    conditions: list[Conditions] = field(default_factory=list)
    call_cycles: list[int] = field(default_factory=list)
    call_conditions: list[Conditions] = field(default_factory=list)

    def add(self, mnemonic: str, key: Hashable, row: Mapping[str, int], conditions: Conditions) -> None:
        spec = BY_MNEMONIC[mnemonic]
        self.keys.append((mnemonic, key))
        self.rows.append({**row, "opcode": spec.opcode})
        self.queues.append(int(spec.queue))
        self.conditions.append(conditions)

    def schedule(self) -> Schedule:
        queues, counts = _pairs(self.conditions, 2 * CONDITIONS)
        return Schedule(np.array(self.queues, np.int64), queues, counts).with_arm(
            *_pairs(self.call_conditions, CONDITIONS)
        )


def _pairs(conditions: list[Conditions], width: int) -> tuple[Array, Array]:
    """Queues and counts [n, width] of conditions."""
    none = [(NO_CONDITION, 0)] * width
    pairs = np.array([(*found, *none)[:width] for found in conditions], np.int64).reshape(len(conditions), width, 2)
    return pairs[:, :, 0], pairs[:, :, 1] & 0xFFFF


class DescriptorLengths:
    """Stored bytes of descriptors, by kernel and by which of its fields are zero: trailing zeros are not stored."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def __call__(self, kernel: Kernel, record: Mapping[str, int]) -> int:
        """Length of the kernel's descriptor `record`."""
        key = (kernel.node, *map(bool, record.values()))
        if key not in self._known:
            self._known[key] = len(encode_record(LAYER, record, trim=True))
        return self._known[key]


class _Sketcher:
    """Follows the tasks of a plan as `npuc.emit.stream.Emitter` does."""

    def __init__(self, plan: Plan, target: Target, lengths: DescriptorLengths) -> None:
        self._plan, self._lengths = plan, lengths
        self._slots: OrderedDict[Hashable, None] = OrderedDict()
        self._n_slots = target.architecture.descriptor_slots
        self._waits = WaitTracker(max((buffer_end(buffer) for buffer in plan.buffers), default=0))
        self._base = {buffer.name: placed(buffer) for buffer in plan.buffers}
        self._rings = {buffer.name: buffer.ring_rows for buffer in plan.buffers}
        self._layers: dict[tuple[str, tuple[int, int, int]], tuple[Hashable, Mapping[str, int], int]] = {}
        self._sketch = _Sketch()

    def run(self) -> _Sketch:
        for key, (record, _) in shared_records(self._plan, lambda kernel, task: self._layer(kernel, task)[1]).items():
            length = self._lengths(self._plan.kernels[key[0]], record)
            self._layers[key] = tuple(record.values()), self._layers[key][1], length
        for task in self._plan.tasks:
            self._task(task)
        self._sketch.add("end", None, {}, [])
        return self._sketch

    def _task(self, task: Task) -> None:
        reads, writes = accesses(self._plan, task)
        base = self._base
        extra, conditions = self._waits.visit(
            task.queue,
            [(base[name] + low, base[name] + high) for name, low, high in reads],
            [(base[name] + low, base[name] + high) for name, low, high in writes],
            **order_of(task),
        )
        if isinstance(task, Call):
            self._call(task, extra, conditions)
            return
        mnemonic = "dma.load" if isinstance(task, Load) else task.mnemonic
        key, row = self._load(task) if isinstance(task, Load) else self._compute(task)
        if extra:
            self._sketch.add(WAITS[task.queue], None, {}, extra)
        self._sketch.add(mnemonic, key, row, conditions)

    def _call(self, task: Call, extra: Conditions, conditions: Conditions) -> None:
        node = self._plan.kernels[task.kernel].arm
        if extra:
            self._sketch.call_cycles.append(0)
            self._sketch.call_conditions.append(extra)
        self._sketch.call_cycles.append(node.cycles[task.index] if node is not None else 0)
        self._sketch.call_conditions.append(conditions)

    def _load(self, task: Load) -> tuple[Hashable, Mapping[str, int]]:
        length = task.stop - task.start
        return length, {
            "source": address(Memory.FLASH, 0), "destination": address(Memory.SRAM, 0), "length": length,
        }  # fmt: skip

    def _compute(self, task: Compute) -> tuple[Hashable, Mapping[str, int]]:
        kernel = self._plan.kernels[task.kernel]
        if task.mnemonic == "dma.fill":
            filled = fill_fields(kernel.ofm, task)
            identity = tuple(sorted(filled.items()))
            self._descriptor(identity, DMA_RECORD_BYTES)
            return identity, {**filled, "destination": address(Memory.SRAM, 0)}
        layer, record, n_bytes = self._layer(kernel, task)
        is_streamed = self._plan.is_streamed(kernel)
        self._descriptor((layer, is_streamed and kernel.owner), n_bytes)
        words = kernel.parameters.piece(task.c).coded_words if kernel.parameters.weights else 0
        weights = self._parameters(kernel, *weight_bytes(kernel, task)) if kernel.parameters.weights else 0
        held = tuple((self._rings.get(item.storage, 0), item.block, item.c0) for item in _operands(kernel))
        region = (task.n, task.y.start, len(task.y), task.x.start, len(task.x), task.c.start, len(task.c), task.k.start,
                  len(task.k), task.block)  # fmt: skip
        row = {**record, **region_fields(task), "weights": weights, "coded_words": words}
        key = (kernel.node, is_streamed, held, words, len(kernel.parameters.code_table), region)
        return key, row

    def _layer(self, kernel: Kernel, task: Compute) -> tuple[Hashable, Mapping[str, int], int]:
        """Identity, fields and length of the descriptor of a kernel's tasks with one block shape.

        The fields are those that the cost is worked out with; an origin in their stead costs the same.
        """
        key = (kernel.node, task.block)
        if key not in self._layers:
            head = self._parameters(kernel, 0, kernel.parameters.head_bytes)
            record = layer_fields(kernel, lambda name: address(Memory.SRAM, self._base[name]), self._rings, head,
                                  task.block)  # fmt: skip
            self._layers[key] = tuple(record.values()), record, self._lengths(kernel, record)
        return self._layers[key]

    def _descriptor(self, identity: Hashable, n_bytes: int) -> None:
        """Load a descriptor unless it is in the table; the least recently used one makes room."""
        if identity in self._slots:
            self._slots.move_to_end(identity)
            return
        if len(self._slots) >= self._n_slots:
            self._slots.popitem(last=False)
        self._slots[identity] = None
        conditions = self._waits.loads_before() if self._plan.descriptors_wait else []
        self._sketch.add("desc.load", n_bytes, {"words": n_bytes // 8}, conditions)

    def _parameters(self, kernel: Kernel, start: int, stop: int) -> int:
        """Address of parameter bytes of a kernel; of one in flash only the memory."""
        if start == stop:
            return 0
        if kernel.owner in self._plan.streamed:
            return address(Memory.FLASH, CONSTANTS_OFFSET + start)
        name, offset = self._plan.locate(kernel.owner, start, stop)
        return address(Memory.SRAM, self._base[name] + offset)


def _operands(kernel: Kernel) -> list[Operand]:
    return [operand for operand in (kernel.ofm, kernel.ifm, kernel.ifm2) if operand is not None]
