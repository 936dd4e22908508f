"""State of the event engine: what is to run, and where it stands. All columns are flat int64 arrays."""

from __future__ import annotations

from typing import NamedTuple

from isa.timing.geometry import Ints


class Plan(NamedTuple):
    """What is to run: all but `order` and `fetched` have a row an instruction; times in ticks."""

    queue: Ints
    amounts: Ints
    """[n * PHASES * RESOURCES]"""
    lead: Ints
    drain: Ints
    wait_queue: Ints
    """[n * CONDITIONS]; 7: none"""
    wait_count: Ints
    stream_end: Ints
    """Ticks of flash bandwidth up to the end of the instruction in the stream."""
    descriptor: Ints
    order: Ints
    """Instructions by queue."""
    first: Ints
    """[QUEUES + 1] where each queue's part of `order` begins."""
    fetched: Ints
    """Instructions in the order of the stream."""
    limits: Ints
    """[4] queue depth, prefetch, dispatch and flash latency."""


class Machine(NamedTuple):
    """State and results; indices into queues are positions within the queue."""

    scalars: Ints
    front: Ints
    front_phase: Ints
    front_timer: Ints
    back: Ints
    back_phase: Ints
    pushed: Ints
    started: Ints
    ended: Ints
    retired: Ints
    left: Ints
    """[AGENTS * RESOURCES] ticks of work at the full rate."""
    users: Ints
    start: Ints
    issue_end: Ints
    retire: Ints
    charged: Ints
    """[n * CLASSES] ticks of the queue's time by what they were spent on."""
    busy: Ints
    """[RESOURCES] ticks with at least one user."""
