"""Cycles and energy of many plans of one network: the timing of `npuc.emit.judge`, without writing any bytes.

A search looks at hundreds of plans whose instructions are mostly the same. What an instruction costs and which bytes of
its storages it touches does not depend on where its buffers lie, as they are aligned to port words; so it is worked out
once, for all plans. Only the conditions and the descriptors that a plan loads follow from its addresses, and plans that
differ only in whether descriptors wait share even these.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from isa.container import CONSTANTS_OFFSET
from isa.descriptors import Memory, address
from isa.instructions import BY_MNEMONIC, CONDITIONS, NO_CONDITION, Queue
from isa.target import Energy, Target
from isa.timing import Schedule, Work, simulate, spent, usage_of, work_of
from npuc.emit.plan_records import Records
from npuc.emit.plan_waits import NONE, TaskWaits, waits_of
from npuc.emit.stream import WAITS, placed
from npuc.errors import InvalidGraph
from npuc.graph.types import Array
from npuc.lower.kernel import ALIGNMENT, Kernel
from npuc.task.accesses import Touched, located, touched
from npuc.task.fields import fill_fields, first_byte, layer_fields, region_fields
from npuc.task.task import Buffer, Call, Compute, Load, Plan
from npuc.task.task import Work as Computing

DMA_RECORD_BYTES = 32
_WORK = tuple(item.name for item in fields(Work))
_SRAM, _FLASH = address(Memory.SRAM, 0), address(Memory.FLASH, CONSTANTS_OFFSET)


@dataclass(frozen=True)
class _Facts:
    """What a task does in every plan: the row of its cost, what it touches, and what it is known by."""

    task: Computing
    cost: int
    touched: Touched


@dataclass(frozen=True)
class _Variant:
    """A kernel with its line buffers, and whether its parameters are in flash; `facts` by the identity of tasks, which
    they keep alive."""

    kernel: Kernel
    rings: Mapping[str, int]
    is_streamed: bool
    facts: dict[int, _Facts] = field(default_factory=dict)
    touched: dict[Hashable, Touched] = field(default_factory=dict)
    """By region."""

    def touched_by(self, task: Computing) -> Touched:
        """What a task touches, whatever its block shape: one object for each region."""
        region: Hashable = task.index if isinstance(task, Call) else (
            task.n, task.y.start, task.y.stop, task.c.start, task.c.stop, task.k.start, task.k.stop
        )  # fmt: skip
        if region not in self.touched:
            self.touched[region] = touched(self.kernel, task, self.rings, is_streamed=self.is_streamed)
        return self.touched[region]


class Judge:
    """Remembers what instructions do on a target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._records = Records()
        self._variants: dict[Hashable, _Variant] = {}
        self._costs = _Costs(target)
        self._last: tuple[Plan, _Sketch] | None = None
        self._waits: _Waits | None = None

    def cycles(self, plan: Plan) -> int:
        """Total cycles of a placed plan; InvalidGraph when it cannot finish."""
        return self._run(plan)[1]

    def picojoules(self, plan: Plan, energy: Energy) -> int:
        """What a placed plan takes; InvalidGraph when it cannot finish."""
        return spent(usage_of(*self._run(plan)), energy).predicted_pj

    def _run(self, plan: Plan) -> tuple[Work, int]:
        """What its instructions do, and total cycles."""
        sketch = self._sketch(plan)
        rows = self._costs.rows(sketch.costs)
        work = Work(**{name: rows[:, i] for i, name in enumerate(_WORK)})
        work = work.with_arm(np.array(sketch.call_cycles, np.int64))
        timeline = simulate(work, sketch.schedule(descriptors_wait=plan.descriptors_wait), self._target)
        if timeline.deadlock is not None:
            raise InvalidGraph(f"the plan cannot finish: {timeline.deadlock}", stage="schedule")
        return work, timeline.total_cycles

    def _sketch(self, plan: Plan) -> _Sketch:
        """Of the plan; that of the last one when only `descriptors_wait` differs."""
        if self._last is not None:
            last, sketch = self._last
            if last.tasks is plan.tasks and last.buffers is plan.buffers and last.kernels is plan.kernels:
                return sketch
        sketcher = _Sketcher(plan, self._target, self._records, self._costs, self._variants_of(plan))
        reached = sketcher.reached()
        known = self._waits
        if known is None or known.buffers is not plan.buffers or known.reached != reached:
            known = self._waits = _Waits(plan.buffers, reached, sketcher.waits())
        sketch = sketcher.run(known.waits)
        self._last = plan, sketch
        return sketch

    def _variants_of(self, plan: Plan) -> dict[str, _Variant]:
        """The kernels of a plan as it runs them."""
        found = {}
        for name, kernel in plan.kernels.items():
            rings = {item.storage: plan.buffer[item.storage].ring_rows
                     for item in kernel.operands if item.storage in plan.buffer}  # fmt: skip
            is_streamed = kernel.owner in plan.streamed
            key = id(kernel), *rings.values(), is_streamed
            found[name] = self._variants.setdefault(key, _Variant(kernel, rings, is_streamed))
        return found


@dataclass(frozen=True)
class _Waits:
    """Waits of the tasks of plans with these buffers that reach the same bytes, as the identities in `reached` say."""

    buffers: tuple[Buffer, ...]
    reached: list[Hashable]
    waits: TaskWaits


class _Costs:
    """Costs of instructions, by what they depend on."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._place: dict[Hashable, int] = {}
        self._new: list[Mapping[str, int]] = []
        self._known = np.zeros((0, len(_WORK)), np.int64)

    def place(self, mnemonic: str, identity: Hashable, row: Mapping[str, int]) -> int:
        """Row of an instruction with these fields; equal identities of a mnemonic cost the same."""
        key = mnemonic, identity
        if key not in self._place:
            self._place[key] = len(self._place)
            self._new.append({**row, "opcode": BY_MNEMONIC[mnemonic].opcode})
        return self._place[key]

    def rows(self, places: Array) -> Array:
        """The amounts of `Work` of these rows [n, amounts]."""
        if self._new:
            names = dict.fromkeys(name for row in self._new for name in row)
            columns = {name: np.array([row.get(name, 0) for row in self._new], np.int64) for name in names}
            work = work_of(columns, self._target)
            self._known = np.vstack([self._known, np.stack([getattr(work, name) for name in _WORK], axis=1)])
            self._new = []
        return self._known[places]


@dataclass(frozen=True)
class _Sketch:
    """Instructions in order: rows of their costs, their queues and conditions [n, 6]; which of them load a descriptor,
    and how many loads those before each waited for; then the calls of the Arm core: cycles and conditions."""

    costs: Array
    queues: Array
    wait_queue: Array
    wait_count: Array
    descriptors: list[tuple[int, int]]
    call_cycles: list[int]
    call_queue: Array
    call_count: Array

    def schedule(self, *, descriptors_wait: bool) -> Schedule:
        """As `isa.timing.simulate` takes it."""
        queue, count = self.wait_queue, self.wait_count
        if descriptors_wait:
            queue, count, waited = queue.copy(), count.copy(), 0
            for at, loads in self.descriptors:
                if loads != waited:
                    queue[at, 0], count[at, 0], waited = Queue.DMA_IN, loads & 0xFFFF, loads
        return Schedule(self.queues, queue, count).with_arm(self.call_queue, self.call_count)


class _Sketcher:
    """Follows the tasks of a plan as `npuc.emit.stream.Emitter` does."""

    def __init__(
        self, plan: Plan, target: Target, records: Records, costs: _Costs, variants: Mapping[str, _Variant]
    ) -> None:
        self._plan, self._costs, self._variants = plan, costs, variants
        self._slots: OrderedDict[Hashable, None] = OrderedDict()
        self._n_slots = target.architecture.descriptor_slots
        self._base = {buffer.name: placed(buffer) for buffer in plan.buffers}
        self._records = records.of(plan, self._base)
        self._conditions: list[tuple[int, ...]] = []
        self._found: list[tuple[int, int, int]] = []
        """Of each instruction: row of its cost, queue, row of its conditions."""
        self._descriptors: list[tuple[int, int]] = []
        self._calls: list[tuple[int, int]] = []
        """Of each call: cycles, row of its conditions."""

    def reached(self) -> list[Hashable]:
        """What each task reaches in the buffers, by identity."""
        return [
            (task.buffer, task.start, task.stop, task.after) if isinstance(task, Load)
            else id(self._facts(self._variants[task.kernel], task).touched)
            for task in self._plan.tasks
        ]  # fmt: skip

    def run(self, waits: TaskWaits) -> _Sketch:
        """Instructions of tasks with these waits."""
        needed, loads = waits.counts.tolist(), waits.loads.tolist()
        none = self._add_conditions([])
        for task, counts, n_loads in zip(self._plan.tasks, needed, loads, strict=True):
            pairs = [(queue, count) for queue, count in enumerate(counts) if count]
            held = none if not pairs else self._add_conditions(pairs[-CONDITIONS:])
            extra = self._add_conditions(pairs[:-CONDITIONS]) if len(pairs) > CONDITIONS else None
            if isinstance(task, Call):
                self._call(task, extra, held)
                continue
            mnemonic, cost = self._instruction(task, n_loads, none)
            if extra is not None:
                self._add(WAITS[task.queue], self._costs.place(WAITS[task.queue], None, {}), extra)
            self._add(mnemonic, cost, held)
        self._add("end", self._costs.place("end", None, {}), none)
        return self._finished()

    def _finished(self) -> _Sketch:
        conditions = np.array(self._conditions, np.int64).reshape(-1, 2, 2 * CONDITIONS)
        found = np.array(self._found, np.int64).T
        calls = np.array(self._calls, np.int64).reshape(-1, 2)
        of_calls = conditions[calls[:, 1], :, :CONDITIONS]
        held = conditions[found[2]]
        return _Sketch(
            found[0], found[1], held[:, 0], held[:, 1], self._descriptors, calls[:, 0].tolist(),
            of_calls[:, 0], of_calls[:, 1],
        )  # fmt: skip

    def _add_conditions(self, pairs: list[tuple[int, int]]) -> int:
        missing = 2 * CONDITIONS - len(pairs)
        queues, counts = [queue for queue, _ in pairs], [count & 0xFFFF for _, count in pairs]
        self._conditions.append((*queues, *[NO_CONDITION] * missing, *counts, *[0] * missing))
        return len(self._conditions) - 1

    def _add(self, mnemonic: str, cost: int, conditions: int) -> None:
        self._found.append((cost, int(BY_MNEMONIC[mnemonic].queue), conditions))

    def waits(self) -> TaskWaits:
        """What each task waits for."""
        base, plan = self._base, self._plan
        number = {name: i for i, name in enumerate(plan.kernels)}
        queues, kernels, afters, starts, spans = [], [], [], [0], list[tuple[int, int, bool]]()
        for task in plan.tasks:
            queues.append(task.queue)
            if isinstance(task, Load):
                kernels.append(NONE)
                afters.append(number.get(task.after, NONE))
                at = base[task.buffer]
                spans.append((at + task.start, at + task.stop, True))
            else:
                kernels.append(number[task.kernel])
                afters.append(NONE)
                variant = self._variants[task.kernel]
                found = self._facts(variant, task).touched
                parts = [located(plan, variant.kernel, *part) for part in found.parameters]
                spans += [(base[name] + low, base[name] + high, False) for name, low, high in found.reads]
                spans += [(base[name] + low, base[name] + high, False) for name, low, high in parts]
                spans += [(base[name] + low, base[name] + high, True) for name, low, high in found.writes]
            starts.append(len(spans))
        return waits_of(queues, kernels, afters, starts, spans)

    def _facts(self, variant: _Variant, task: Computing) -> _Facts:
        found = variant.facts.get(id(task))
        if found is None:
            cost = self._cost(variant, task) if isinstance(task, Compute) else NONE
            found = variant.facts[id(task)] = _Facts(task, cost, variant.touched_by(task))
        return found

    def _cost(self, variant: _Variant, task: Compute) -> int:
        """Row of what an instruction costs wherever its operands are in SRAM."""
        kernel = variant.kernel
        if task.mnemonic == "dma.fill":
            filled, start = fill_fields(kernel.ofm, task), _SRAM + first_byte(kernel.ofm, task) % ALIGNMENT
            return self._costs.place("dma.fill", (*filled.values(), start), {**filled, "destination": start})
        memory = _FLASH if variant.is_streamed else _SRAM
        words = kernel.parameters.piece(task.c).coded_words if kernel.parameters.weights else 0
        region = (task.n, task.y.start, len(task.y), task.x.start, len(task.x), task.c.start, len(task.c), task.k.start,
                  len(task.k), task.block)  # fmt: skip
        held = tuple((variant.rings.get(item.storage, 0), item.block, item.c0) for item in kernel.operands)
        key = (kernel.node, variant.is_streamed, held, words, len(kernel.parameters.code_table), region)
        record = layer_fields(kernel, lambda _: _SRAM, variant.rings, memory, task.block)
        weights = memory
        if kernel.computed_weights and kernel.ifm2 is not None:
            weights = _SRAM + first_byte(kernel.ifm2, task) % ALIGNMENT
        return self._costs.place(
            task.mnemonic, key, {**record, **region_fields(task), "weights": weights, "coded_words": words}
        )

    def _call(self, task: Call, extra: int | None, held: int) -> None:
        node = self._plan.kernels[task.kernel].arm
        if extra is not None:
            self._calls.append((0, extra))
        self._calls.append((node.cycles[task.index] if node is not None else 0, held))

    def _instruction(self, task: Load | Compute, n_loads: int, none: int) -> tuple[str, int]:
        """Mnemonic and cost of a task's instruction, behind the descriptor that it needs."""
        if isinstance(task, Load):
            length = task.stop - task.start
            row = {"source": address(Memory.FLASH, 0), "destination": _SRAM, "length": length}
            return "dma.load", self._costs.place("dma.load", length, row)
        variant = self._variants[task.kernel]
        facts = self._facts(variant, task)
        if task.mnemonic == "dma.fill":
            identity: Hashable = tuple(sorted(fill_fields(variant.kernel.ofm, task).items()))
            n_bytes = DMA_RECORD_BYTES
        else:
            identity, n_bytes = self._records.of(variant.kernel, task)
        self._descriptor(identity, n_bytes, n_loads, none)
        return task.mnemonic, facts.cost

    def _descriptor(self, identity: Hashable, n_bytes: int, n_loads: int, none: int) -> None:
        """Load a descriptor unless it is in the table; the least recently used one makes room."""
        if identity in self._slots:
            self._slots.move_to_end(identity)
            return
        if len(self._slots) >= self._n_slots:
            self._slots.popitem(last=False)
        self._slots[identity] = None
        self._descriptors.append((len(self._found), n_loads))
        self._add("desc.load", self._costs.place("desc.load", n_bytes, {"words": n_bytes // 8}), none)
