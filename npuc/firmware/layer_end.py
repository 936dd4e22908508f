"""When the layers of a program have ended, in terms of progress counters: what the driver's layer hook waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from isa.arm_calls import ArmCall, decode_arm_calls
from isa.codec import decode_program
from isa.container import Container
from isa.instructions import Queue
from npuc.firmware.model_source import Layer

COUNTER_RANGE = 1 << 16
_ENDS = (Queue.DMA_OUT, Queue.MAC, Queue.VEC)
"""Queues whose instructions end a layer."""

End = tuple[int, int, int]
"""Place in program order, 1 for an instruction (calls of that place come before it), number of instruction or call."""


def layer_ends(container: Container, layer_of: Mapping[int, str]) -> tuple[Layer, ...]:
    """Layers in the order of their ends; `layer_of` names the layer of instructions, then of calls, numbered through.

    A layer ends with its last instruction or call. `n_calls` of a layer come before its end in program order, where
    a call comes as soon as its conditions hold.
    """
    queues = decode_program(container.instructions).queue
    places = call_places(queues, decode_arm_calls(container.arm_calls))
    last: dict[str, End] = {}
    for index in np.flatnonzero(np.isin(queues, _ENDS)).tolist():
        if name := layer_of.get(index):
            last[name] = (index, 1, index)
    for call, place in enumerate(places):
        name = layer_of.get(len(queues) + call)
        if name and (place, 0) >= last.get(name, (0, 0))[:2]:
            last[name] = (place, 0, call)
    ends = sorted((end, name) for name, end in last.items())
    return tuple(_layer(name, end, queues, places) for end, name in ends)


def _layer(name: str, end: End, queues: npt.NDArray[np.int64], places: Sequence[int]) -> Layer:
    place, is_instruction, index = end
    if not is_instruction:
        return Layer(name, int(Queue.ARM), (index + 1) % COUNTER_RANGE, index + 1)
    count = int(np.count_nonzero(queues[: index + 1] == queues[index])) % COUNTER_RANGE
    return Layer(name, int(queues[index]), count, sum(before <= place for before in places))


def call_places(queues: npt.NDArray[np.int64], calls: Sequence[ArmCall]) -> list[int]:
    """Instructions that stand before each call in program order, given the queue of each instruction."""
    places, place = [], 0
    for call in calls:
        for queue, count in call.conditions:
            line = np.flatnonzero(queues == queue)
            before = int(np.searchsorted(line, place))
            missing = (count - before) % COUNTER_RANGE
            if 0 < missing <= COUNTER_RANGE // 2:
                place = int(line[before + missing - 1]) + 1 if before + missing <= len(line) else len(queues)
        places.append(place)
    return places
