"""The slow, obvious twin of the verifier: every byte of every access by the manual's formula, order by reachability."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt

from isa.arm_calls import decode_arm_calls
from isa.codec import Instruction, decode_all
from isa.container import read_container
from isa.descriptors import ElementType, split_address
from isa.instructions import Queue
from isa.record import decode_record

Flags = npt.NDArray[np.bool_]

ITEM = {ElementType.INT8: 1, ElementType.UINT8: 1, ElementType.INT16: 2, ElementType.INT32: 4}


@dataclass(frozen=True)
class Step:
    """What orders an instruction or a call."""

    queue: Queue
    conditions: tuple[tuple[Queue, int], ...]


def element(layer: Mapping[str, int], prefix: str, n: int, y: int, x: int, c: int) -> range:
    """The addresses of one element, word by word as the manual has it."""
    channels = layer["ifm_channels" if prefix == "ifm" else "ofm_channels"]
    c0, item = layer[f"{prefix}_c0"], ITEM[ElementType(layer[f"{prefix}_type"])]
    b, j = divmod(c, c0)
    row, pixel = layer[f"{prefix}_row"], layer[f"{prefix}_pixel"]
    if b == channels // c0 and channels % c0:
        row, pixel = layer[f"{prefix}_last_row"] or row, layer[f"{prefix}_last_pixel"] or pixel
    r = y % layer[f"{prefix}_ring"] if layer[f"{prefix}_ring"] else y
    first = layer[f"{prefix}_base"] + n * layer[f"{prefix}_batch"] + b * layer[f"{prefix}_block"]
    first += r * row + x * pixel + j * item
    return range(first, first + item)


def touched(instruction: Instruction, layer: Mapping[str, int]) -> tuple[set[int], set[int]]:
    """(read, written) 32-bit addresses."""
    v, name = instruction.values, instruction.mnemonic
    if name in ("dma.load", "dma.store"):
        return set(range(v["source"], v["source"] + v["length"])), set(
            range(v["destination"], v["destination"] + v["length"])
        )
    if name == "dma.fill":
        return set(), set(_four(v["destination"], layer, "destination"))
    if not name.startswith(("mac.", "vec.")):
        return set(), set()
    rows, pixels = range(v["y"], v["y"] + v["height"]), range(v["x"], v["x"] + v["width"])
    channels = range(v["c"], v["c"] + v["channels"])
    written = {a for y, x, c in product(rows, pixels, channels) for a in element(layer, "ofm", v["n"], y, x, c)}
    read = set(_constants(instruction, layer))
    for y, x, c in _input_elements(instruction, layer, rows, pixels, channels):
        read |= set(element(layer, "ifm", v["n"], y, x, c))
    if name in ("vec.add", "vec.sub", "vec.mul") or (name.startswith("mac.") and layer["use_residual"]):
        for y, x, c in product(rows, pixels, channels):
            read |= set(element(layer, "ifm2", v["n"], y, x, c))
    return read, written


def _four(start: int, layer: Mapping[str, int], side: str) -> Iterator[int]:
    for a, b, c, d in product(*(range(layer[f"size_{i}"]) for i in (3, 2, 1, 0))):
        yield start + a * layer[f"{side}_3"] + b * layer[f"{side}_2"] + c * layer[f"{side}_1"] + d


def _constants(instruction: Instruction, layer: Mapping[str, int]) -> Iterator[int]:
    v, name = instruction.values, instruction.mnemonic
    if name.startswith("mac."):
        record = (10, 6, 7, 8)[layer["scale_form"]]
        n_weights = layer["kernel_h"] * layer["kernel_w"] * v["k_channels"] * v["channels"]
        if v["coded_words"]:
            n_weights = 8 * v["coded_words"]
            table = layer["scales"] + (record * layer["ofm_channels"] + 15) // 16 * 16
            yield from range(table, table + 16 * layer["code_table"])
        yield from range(v["weights"], v["weights"] + n_weights)
        first = layer["scales"] + record * v["c"]
        yield from range(first, first + record * v["channels"])
    if name == "vec.table" or (name.startswith("mac.") and layer["use_table"]):
        yield from range(layer["table"], layer["table"] + 256)


def _input_elements(
    instruction: Instruction, layer: Mapping[str, int], rows: range, pixels: range, channels: range
) -> Iterator[tuple[int, int, int]]:
    v, name = instruction.values, instruction.mnemonic
    if name == "vec.mean":
        yield from product(range(layer["ifm_height"]), range(layer["ifm_width"]), channels)
    elif name == "vec.resize":
        yield from {(y // layer["stride_h"], x // layer["stride_w"], c) for y, x, c in product(rows, pixels, channels)}
    elif name == "vec.bilinear":
        down, across, (top, left) = layer["multiplier_1"], layer["multiplier_2"], (layer["mid_low"], layer["mid_high"])
        beside_y = {t for y in rows for t in _beside(y * down + top, layer["ifm_height"])}
        beside_x = {t for x in pixels for t in _beside(x * across + left, layer["ifm_width"])}
        yield from product(beside_y, beside_x, channels)
    elif name in ("mac.conv", "mac.depthwise", "vec.maxpool", "vec.avgpool"):
        summed = range(v["k"], v["k"] + v["k_channels"]) if name == "mac.conv" else channels
        taps_y = {t for y in rows for t in _taps(layer, "h", layer["pad_top"], y) if 0 <= t < layer["ifm_height"]}
        taps_x = {t for x in pixels for t in _taps(layer, "w", layer["pad_left"], x) if 0 <= t < layer["ifm_width"]}
        yield from product(taps_y, taps_x, summed)
    else:
        yield from product(rows, pixels, channels)


def _beside(place: int, length: int) -> tuple[int, int]:
    return max(place // 1024, 0), min(max(-(-place // 1024), 0), length - 1)


def _taps(layer: Mapping[str, int], axis: str, pad: int, output: int) -> list[int]:
    start = output * layer[f"stride_{axis}"] - pad
    return [start + i * layer[f"dilation_{axis}"] for i in range(layer[f"kernel_{axis}"])]


def captured(data: bytes) -> Iterator[tuple[Instruction, Mapping[str, int]]]:
    """Every instruction with the fields of the descriptor that it captures."""
    slots: dict[int, bytes] = {}
    for _, instruction in decode_all(read_container(data).instructions):
        v, record = instruction.values, instruction.spec.descriptor
        if instruction.mnemonic == "desc.load":
            slots[v["slot"]] = data[v["address"] : v["address"] + 8 * v["words"]]
        yield instruction, decode_record(record, slots[v["slot"]]) if record else {}


def calls(data: bytes) -> list[Step]:
    """The Arm calls, which stand behind the instructions."""
    return [Step(Queue.ARM, call.conditions) for call in decode_arm_calls(read_container(data).arm_calls)]


def _touched_by_calls(data: bytes) -> Iterator[tuple[set[int], set[int]]]:
    for call in decode_arm_calls(read_container(data).arm_calls):
        sides: tuple[set[int], set[int]] = (set(), set())
        for item in call.ranges:
            sides[item.is_written].update(range(item.address, item.address + item.n_bytes))
        yield sides


def sram_flags(data: bytes) -> list[tuple[Flags, Flags]]:
    """(read, written) bytes of sram of every instruction, then of every Arm call."""
    rows = [touched(instruction, layer) for instruction, layer in captured(data)]
    rows += _touched_by_calls(data)
    kept = [[[split_address(a)[1] for a in side if split_address(a)[0] == 1] for side in row] for row in rows]
    size = 1 + max((a for row in kept for side in row for a in side), default=0)
    result = []
    for row in kept:
        pair = np.zeros((2, size), np.bool_)
        for flags, side in zip(pair, row, strict=True):
            flags[side] = True
        result.append((pair[0], pair[1]))
    return result


def steps(instructions: list[Instruction]) -> list[Step]:
    """The instructions as steps."""
    return [Step(item.spec.queue, item.conditions()) for item in instructions]


def retired_before(code: list[Step]) -> npt.NDArray[np.bool_]:
    """[a, b]: step a has retired when b starts, by reachability over start and retire events.

    Counts below 2^15 only. Fetched instructions hold up the instructions behind them; calls run one by one.
    """
    n = len(code)
    queues = [[i for i, item in enumerate(code) if item.queue == queue] for queue in Queue]
    after: list[set[int]] = [set() for _ in range(2 * n)]  # event i: start of i; n + i: its retirement
    for i, item in enumerate(code):
        after[i].add(n + i)
        for queue, count in item.conditions:
            if count:
                after[n + queues[queue][count - 1]].add(i)
        if item.queue == Queue.FETCH:
            for later in range(i + 1, n):
                if code[later].queue != Queue.ARM:
                    after[i].add(later)
    for line in queues:
        for a, b in pairwise(line):
            after[n + a if code[a].queue == Queue.ARM else a].add(b)
            after[n + a].add(n + b)
    result = np.zeros((n, n), np.bool_)
    for a in range(n):
        pending, seen = [n + a], {n + a}
        while pending:
            fresh = after[pending.pop()] - seen
            seen |= fresh
            pending += fresh
        result[a, [event for event in seen if event < n]] = True
    return result


def races(code: list[Step], flags: list[tuple[Flags, Flags]]) -> set[tuple[int, int]]:
    """Pairs of steps, the one behind last, that the rules of the manual leave unordered on a common byte."""
    ordered = retired_before(code)
    found = set()
    for b, (reads, writes) in enumerate(flags):
        for a, (earlier_reads, earlier_writes) in enumerate(flags[:b]):
            same_queue = code[a].queue == code[b].queue
            clash = reads & earlier_writes
            if not same_queue:
                clash = clash | (writes & (earlier_reads | earlier_writes))
            if clash.any() and not ordered[a, b] and not ordered[b, a]:
                found.add((a, b))
    return found
