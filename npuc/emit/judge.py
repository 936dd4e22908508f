"""Cycles of an emitted stream by the exact engine of isa.timing."""

from __future__ import annotations

import numpy as np

from isa.codec import decode_program
from isa.descriptors import DESCRIPTORS
from isa.instructions import CONDITIONS, NO_CONDITION
from isa.target import Target
from isa.timing import Schedule, Timeline, Work, simulate, work_of
from npuc.emit.stream import Stream
from npuc.errors import InvalidGraph
from npuc.graph.types import Array

_FIELDS = tuple(dict.fromkeys(field.name for record in DESCRIPTORS for field in record.fields))


def stream_timeline(stream: Stream, target: Target) -> Timeline:
    """Start and end of every instruction, then of every call; InvalidGraph when the program cannot finish."""
    code = decode_program(bytes(stream.code))
    waits = Schedule(
        code.queue, np.hstack([code.wait_queue, code.more_queue]), np.hstack([code.wait_count, code.more_count])
    ).with_arm(*_call_conditions(stream))
    timeline = simulate(stream_work(stream, target), waits, target)
    if timeline.deadlock is not None:
        raise InvalidGraph(f"the emitted program cannot finish: {timeline.deadlock}", stage="emit")
    return timeline


def _call_conditions(stream: Stream) -> tuple[Array, Array]:
    """Queues and counts [n calls, 3]."""
    none = ((NO_CONDITION, 0),) * CONDITIONS
    rows = [(*call.conditions, *none)[:CONDITIONS] for call in stream.calls]
    pairs = np.array(rows, np.int64).reshape(len(rows), CONDITIONS, 2)
    return pairs[:, :, 0], pairs[:, :, 1] & 0xFFFF


def stream_work(stream: Stream, target: Target) -> Work:
    """Work of every instruction of a stream, then of every call."""
    code = decode_program(bytes(stream.code))
    columns: dict[str, Array] = {"opcode": code.opcode, **code.fields}
    distinct = {id(record): record for record in stream.records}
    place = {key: i for i, key in enumerate(distinct)}
    index = np.array([place[id(record)] for record in stream.records], np.int64)
    for name in _FIELDS:
        columns[name] = np.array([record.get(name, 0) for record in distinct.values()], np.int64)[index]
    return work_of(columns, target).with_arm(np.array([call.cycles for call in stream.calls], np.int64))
