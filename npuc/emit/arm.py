"""Calls of the Arm core with final addresses: parameter records, the SRAM that each touches, constants in flash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isa.arm_calls import NO_KERNEL, ArmCall, ArmRange
from isa.descriptors import Memory, address
from npuc.arm.node import Bound, BoundCall
from npuc.emit.stream import Pending, Stream, placed
from npuc.errors import InvalidGraph
from npuc.task.task import Call, Plan


@dataclass(frozen=True)
class EmittedCall:
    """A call as the program holds it, the plan's task that makes it, and its kernel's name; "" when it only waits."""

    record: ArmCall
    task: int
    kernel: str


def emit_calls(plan: Plan, stream: Stream) -> list[EmittedCall]:
    """Bind every node on the Arm core to the addresses of the plan."""
    bound = {
        name: kernel.arm.bind(lambda storage: placed(plan.buffer[storage]), stream.arm_constants[name])
        for name, kernel in plan.kernels.items()
        if kernel.arm is not None
    }
    return [_emit(_bound_call(plan, bound, pending), pending) for pending in stream.calls]


def _bound_call(plan: Plan, bound: dict[str, Bound], pending: Pending) -> BoundCall | None:
    task = plan.tasks[pending.task]
    if not isinstance(task, Call):
        raise InvalidGraph(f"task {pending.task} makes no call", stage="emit")
    return None if pending.waits_only else bound[task.kernel].calls[task.index]


def _emit(item: BoundCall | None, pending: Pending) -> EmittedCall:
    if item is None:
        return EmittedCall(ArmCall(NO_KERNEL, 0, 0, b"", pending.conditions, ()), pending.task, "")
    ranges = (*_ranges(item.reads, is_written=False), *_ranges(item.writes, is_written=True))
    call = item.call
    record = ArmCall(call.kernel_id, call.version, pending.cycles, call.parameters, pending.conditions, ranges)
    return EmittedCall(record, pending.task, call.kernel)


def _ranges(runs: Sequence[tuple[int, int]], *, is_written: bool) -> list[ArmRange]:
    return [ArmRange(address(Memory.SRAM, start), n_bytes, is_written) for start, n_bytes in runs]
