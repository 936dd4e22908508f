"""The Arm call section: what the Arm core computes for a program, in order, with the conditions that each call awaits.

A call names a kernel by number and version; the kernels themselves are part of the firmware, never of a program. What a
call reads and writes in sram is listed beside it, so that checkers need not know kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isa.container_format import ARM_CALL, ARM_HEADER, ARM_RANGE
from isa.descriptors import Memory
from isa.errors import IsaError
from isa.fields import RecordSpec
from isa.instructions import CONDITIONS, NO_CONDITION, Queue
from isa.record import decode_record, encode_record

MAX_CALLS = 1 << 16
PARAMETERS_ALIGNMENT = 8
"""Parameter records begin at multiples of this, from the start of the section."""

NO_KERNEL = 0
"""Kernel id of a call that only waits: what needs more conditions than one call holds."""


@dataclass(frozen=True)
class ArmRange:
    """Bytes [address, address + n_bytes) of sram that a call reads or, where `is_written`, writes completely."""

    address: int
    n_bytes: int
    is_written: bool


@dataclass(frozen=True)
class ArmCall:
    """One call; `conditions` are up to three (queue, count), `cycles` its expected duration on the NPU's clock."""

    kernel: int
    version: int
    cycles: int
    parameters: bytes
    conditions: tuple[tuple[Queue, int], ...]
    ranges: tuple[ArmRange, ...]


def encode_arm_calls(calls: Sequence[ArmCall]) -> bytes:
    """The section: header, calls, ranges, parameter records; nothing for no calls. IsaError for what does not fit."""
    if not calls:
        return b""
    records, ranges, parameters = b"", b"", b""
    for call in calls:
        _check(call)
        records += encode_record(ARM_CALL, _call_values(call, len(parameters)))
        ranges += b"".join(
            encode_record(ARM_RANGE, vars(item) | {"is_written": item.is_written}) for item in call.ranges
        )
        parameters += call.parameters.ljust(_aligned(len(call.parameters)), b"\0")
    counts = {"call_count": len(calls), "range_count": len(ranges) // ARM_RANGE.length_bytes}
    header = encode_record(ARM_HEADER, {**counts, "parameters_bytes": len(parameters)})
    return header + records + ranges + parameters


def decode_arm_calls(section: bytes) -> tuple[ArmCall, ...]:
    """The calls of a section; IsaError when it is malformed."""
    if not section:
        return ()
    header = decode_record(ARM_HEADER, section[: ARM_HEADER.length_bytes])
    n_calls, n_ranges = header["call_count"], header["range_count"]
    first_range = ARM_HEADER.length_bytes + n_calls * ARM_CALL.length_bytes
    first_parameter = first_range + n_ranges * ARM_RANGE.length_bytes
    if not 0 < n_calls <= MAX_CALLS or first_parameter + header["parameters_bytes"] != len(section):
        raise IsaError(f"arm section of {len(section)} bytes has {n_calls} calls, allowed: 1 to {MAX_CALLS}")
    rows = _rows(section, ARM_CALL, ARM_HEADER.length_bytes, n_calls)
    ranges = _rows(section, ARM_RANGE, first_range, n_ranges)
    if sum(row["range_count"] for row in rows) != n_ranges:
        raise IsaError(f"arm section has {n_ranges} ranges, its calls another number")
    calls, used = [], 0
    for row in rows:
        mine = ranges[used : used + row["range_count"]]
        used += len(mine)
        calls.append(_call(row, mine, section[first_parameter:]))
    return tuple(calls)


def _rows(section: bytes, spec: RecordSpec, start: int, count: int) -> list[dict[str, int]]:
    size = spec.length_bytes
    return [decode_record(spec, section[start + i * size : start + (i + 1) * size]) for i in range(count)]


def _call(row: dict[str, int], ranges: list[dict[str, int]], parameters: bytes) -> ArmCall:
    start, end = row["parameters"], row["parameters"] + row["parameters_bytes"]
    if end > len(parameters):
        raise IsaError(f"arm call: parameters end at byte {end}, allowed: {len(parameters)}")
    conditions = [(row[f"wait{i}_queue"], row[f"wait{i}_count"]) for i in range(CONDITIONS)]
    unknown = [queue for queue, _ in conditions if queue > Queue.ARM and queue != NO_CONDITION]
    if unknown:
        raise IsaError(f"arm call: condition on queue {unknown[0]}, allowed: 0 to {int(Queue.VEC)} and {NO_CONDITION}")
    call = ArmCall(
        row["kernel"], row["version"], row["cycles"], parameters[start:end],
        tuple((Queue(queue), count) for queue, count in conditions if queue != NO_CONDITION),
        tuple(ArmRange(item["address"], item["n_bytes"], item["is_written"] == 1) for item in ranges),
    )  # fmt: skip
    if any(item["is_written"] > 1 for item in ranges):
        raise IsaError("arm call: is_written is above 1")
    _check(call)
    return call


def _check(call: ArmCall) -> None:
    if len(call.conditions) > CONDITIONS:
        raise IsaError(f"arm call: {len(call.conditions)} conditions, allowed: {CONDITIONS}")
    if any(queue >= Queue.ARM for queue, _ in call.conditions):
        raise IsaError("arm call: it waits for arm, allowed: other queues, because calls run in order")
    if call.kernel == NO_KERNEL and (call.parameters or call.ranges or call.version):
        raise IsaError("arm call: it has no kernel but parameters or ranges")
    for item in call.ranges:
        memory, offset = item.address >> 30, item.address & ((1 << 30) - 1)
        if memory != Memory.SRAM or offset + item.n_bytes > 1 << 30 or not item.n_bytes:
            raise IsaError(f"arm call: range {item.address:#010x} of {item.n_bytes} bytes, allowed: inside sram")


def _call_values(call: ArmCall, place: int) -> dict[str, int]:
    values = {
        "kernel": call.kernel,
        "version": call.version,
        "cycles": call.cycles,
        "parameters": place,
        "parameters_bytes": len(call.parameters),
        "range_count": len(call.ranges),
    }
    padding = ((NO_CONDITION, 0),) * (CONDITIONS - len(call.conditions))
    for i, (queue, count) in enumerate((*call.conditions, *padding)):
        values |= {f"wait{i}_queue": int(queue), f"wait{i}_count": count & 0xFFFF}
    return values


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // PARAMETERS_ALIGNMENT) * PARAMETERS_ALIGNMENT
