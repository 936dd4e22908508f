"""Steps of the MAC array: output blocks, and in each of them one chunk of input and weights after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from isa.code_table import STATES, TABLE_UNIT_BYTES, code_table_offset
from isa.descriptors import ElementType, Memory, split_address
from isa.target import Target
from tests.stepped.model_access import WORD, Operand, operand, pieces, plain, region_words, run_words, window
from tests.stepped.model_plan import INPUT, RESIDUAL, SCALES, SECOND, STREAMS, TABLE
from tests.stepped.model_unit import UnitRows, amount

SCALE_BYTES, TABLE_BYTES = (10, 6, 7, 8), 256
"""Of a channel, by the layer's `scale_form`."""

Values = Mapping[str, int]


class Block(NamedTuple):
    """An output block: origin and size."""

    y: int
    x: int
    c: int
    height: int
    width: int
    channels: int


class Part(NamedTuple):
    """A step: one group of outputs of one chunk, or some of its taps.

    `start`, `stop`: input channels that come into the buffer (none: those of the step before stay); `runs` (offset
    behind the block's first weight, length): where raw weights of several chunks lie apart; `opens`: whether its
    weights begin a half of the buffer; `ends_chunk`: whether the weights of its chunk are complete."""

    start: int
    stop: int
    taps: int
    weight_bytes: int
    elements: int
    opens: bool
    ends_chunk: bool
    runs: tuple[tuple[int, int], ...] = ()


def output_blocks(values: Values, layer: Values) -> Iterator[Block]:
    """The blocks of an output region; channels run fastest."""
    depth = 8 * layer["block_c"]
    for y in range(0, values["height"], layer["block_h"]):
        for x in range(0, values["width"], layer["block_w"]):
            for c in range(0, values["channels"], depth):
                size = (values["height"] - y, values["width"] - x, values["channels"] - c)
                limit = (layer["block_h"], layer["block_w"], depth)
                yield Block(values["y"] + y, values["x"] + x, values["c"] + c, *map(min, size, limit))


@dataclass(frozen=True)
class Mac:
    """One MAC instruction."""

    index: int
    values: Values
    layer: Values
    target: Target
    is_depthwise: bool

    @cached_property
    def input(self) -> tuple[Memory, Operand]:
        return operand(self.layer, "ifm")

    @cached_property
    def taps(self) -> int:
        return self.layer["kernel_h"] * self.layer["kernel_w"]

    def parts(self, block: Block) -> list[Part]:
        """Each channel block of the input meets the weights of `cout_lanes` outputs after the other."""
        c0 = self.input[1].c0
        if self.is_depthwise:
            chunks = pieces(block.c, block.c + block.channels, c0)
        else:
            chunks = pieces(self.values["k"], self.values["k"] + self.values["k_channels"], c0)
        found = []
        for chunk in chunks:
            found += self._parts_of(block, chunk, chunk == chunks[-1], len(chunks) > 1)
        return found

    def _parts_of(self, block: Block, chunk: tuple[int, int], is_last: bool, is_cut: bool) -> list[Part]:
        """The groups of a chunk, in as few halves of the weight buffer as hold them one after the other."""
        half, room, inputs = self.target.costs.weight_buffer_bytes // 2, 0, chunk[1] - chunk[0]
        lanes = inputs if self.is_depthwise else self.target.architecture.cout_lanes
        outputs = inputs if self.is_depthwise else block.channels
        depth = 1 if self.is_depthwise else inputs
        found: list[Part] = []
        for group in range(0, outputs, lanes):
            n = min(lanes, outputs - group)
            fit = min(self.taps, half // (n * depth))
            for tap in range(0, self.taps, fit):
                taps = min(fit, self.taps - tap)
                length = taps * n * depth
                opens = length > room
                room = (half if opens else room) - length
                is_done = tap + taps == self.taps
                makes = is_done and (is_last or self.is_depthwise)
                start = chunk[0] if group + tap == 0 else chunk[1]
                runs = self._runs(chunk, group, n, range(tap, tap + taps)) if is_cut else ()
                elements = n * block.height * block.width if makes else 0
                ends = is_done and group + n == outputs
                found.append(Part(start, chunk[1], taps, length, elements, opens, ends, runs))
        return found

    def _runs(self, chunk: tuple[int, int], output: int, n: int, taps: range) -> tuple[tuple[int, int], ...]:
        """A piece of every tap: weights are [group][tap][input channel][output channel of the group]."""
        if self.coded_bytes or self.is_depthwise:
            return ()
        depth, first = self.values["k_channels"], chunk[0] - self.values["k"]
        group = output * self.taps * depth
        return tuple((group + (tap * depth + first) * n, (chunk[1] - chunk[0]) * n) for tap in taps)

    def cycles(self, block: Block) -> int:
        """Datapath cycles of a block, as the timing page gives them."""
        costs = self.target.costs
        if self.is_depthwise:
            groups = -(-block.channels // costs.depthwise_channels)
            cycles = block.height * block.width * groups * -(-self.taps // costs.depthwise_taps)
        else:
            positions = -(-block.height // costs.mac_step_pixels_h) * -(-block.width // costs.mac_step_pixels_w)
            cycles = positions * -(-block.channels // costs.mac_step_cout) * costs.mac_step_cycles * self.steps
        return cycles * (2 if self.layer["ifm_type"] == ElementType.INT16 else 1)

    @cached_property
    def steps(self) -> int:
        """Steps for one position: the best of the ways to fill the input lanes."""
        k = self.values["k_channels"]
        ways = []
        for lanes, taps in self.target.costs.mac_step_taps:
            ways.append(-(-self.taps // taps) * -(-k // lanes))
            if taps == 1 and k < lanes:
                ways.append(self.layer["kernel_h"] * -(-self.layer["kernel_w"] * k // lanes))
        return min(ways)

    @cached_property
    def coded_bytes(self) -> int:
        """Length of the stream of coded weights; 0: raw."""
        return WORD * self.values.get("coded_words", 0)

    def stored_bytes(self, raw_bytes: int) -> int:
        """Bytes in memory of the first `raw_bytes` weights of the instruction."""
        if not self.coded_bytes:
            return raw_bytes
        all_bytes = self.values["channels"] * self.taps * (1 if self.is_depthwise else self.values["k_channels"])
        return -(-self.coded_bytes * raw_bytes // all_bytes)

    def decoder_cycles(self, weights: int) -> int:
        """Cycles in which the decoder delivers these weights."""
        rate = self.target.costs.decoder_weights
        return -(-weights * rate.denominator // rate.numerator) if self.coded_bytes else 0

    def input_amount(self, block: Block, part: Part) -> int:
        memory, tensor = self.input
        rows = window(self.layer, "h", block.y, block.height)
        pixels = window(self.layer, "w", block.x, block.width)
        return amount(memory, region_words(tensor, self.values["n"], rows, pixels, part.start, part.stop))


def add_mac(unit: UnitRows, mac: Mac) -> tuple[list[int], int]:
    """All blocks of an instruction; the resources of its streams and of its output."""
    layer = mac.layer
    ofm_memory, ofm = operand(layer, "ofm")
    first_block = unit.blocks.n
    if mac.coded_bytes:
        _add_code_table(unit, mac)
    body: Values = {}
    for block in output_blocks(mac.values, layer):
        body = _add_parts(unit, mac, block, first_block, body)
        rows, pixels = plain(block.y, block.height), plain(block.x, block.width)
        channels = (block.c, block.c + block.channels)
        if layer["use_residual"]:
            memory, other = operand(layer, "ifm2")
            words = region_words(other, mac.values["n"], rows, pixels, *channels)
            behind = {**body, "job_after_block": max(first_block, unit.blocks.n - 1)}
            unit.job(RESIDUAL, mac.index, amount(memory, words), **behind)
        writes = amount(ofm_memory, region_words(ofm, mac.values["n"], rows, pixels, *channels))
        unit.written[unit.writes(ofm_memory)] += writes
        unit.blocks.extend(
            1,
            block_elements=block.height * block.width * block.channels,
            block_writes=writes,
            block_instruction=mac.index,
            **{f"block_jobs{stream}": unit.jobs[stream].n for stream in range(STREAMS)},
        )
    sources = (layer["ifm_base"], mac.values["weights"], layer["scales"], layer["table"], layer["ifm2_base"])
    return [unit.reads(split_address(source)[0]) for source in sources], unit.writes(ofm_memory)


def _add_parts(unit: UnitRows, mac: Mac, block: Block, first_block: int, body: Values) -> Values:
    """Steps of one block with their loads. Half a buffer is free for them when the step has begun that the other half
    is for. `body`: what everything but the first load of the instruction waits for; the same for the next block."""
    parts = mac.parts(block)
    cycles, shares, done = mac.cycles(block), sum(part.taps for part in parts), 0
    memory, weights = split_address(mac.values["weights"])
    base = (block.c - mac.values["c"]) * sum(part.weight_bytes for part in parts) // block.channels
    offset, start = base, mac.stored_bytes(base)
    is_first_of_pixels = (block.y, block.x) == (mac.values["y"], mac.values["x"])
    needs_parameters = is_first_of_pixels
    for part in parts:
        begun = unit.steps.n + 1
        if part.stop > part.start:
            words = mac.input_amount(block, part)
            unit.job(INPUT, mac.index, words, job_after_step=unit.chunk_step, **body)
            unit.chunk_step = begun
        if part.opens:
            unit.weight_gate, unit.weight_step = unit.weight_step, begun
        first, end = mac.stored_bytes(offset), mac.stored_bytes(offset + part.weight_bytes)
        offset += part.weight_bytes
        words = run_words(weights + start, end - start) - (run_words(weights + start, first - start) if done else 0)
        if part.runs:
            words = sum(run_words(weights + base + at, length) for at, length in part.runs)
        unit.job(SECOND, mac.index, amount(memory, words, end - first), job_after_step=unit.weight_gate, **body)
        if not body:
            loaded = {"job_after_input": unit.jobs[INPUT].n, "job_after_second": unit.jobs[SECOND].n}
            body = {"job_after_block": first_block, **loaded}
        if part.ends_chunk and needs_parameters:
            _add_parameters(unit, mac, block, body)
            needs_parameters = False
        array = cycles * (done + part.taps) // shares - cycles * done // shares
        done += part.taps
        unit.steps.extend(
            1,
            step_instruction=mac.index,
            step_cycles=max(array, mac.decoder_cycles(part.weight_bytes)),
            step_elements=part.elements,
            step_after_block=max(first_block, unit.blocks.n - 1),
            step_input=unit.jobs[INPUT].n,
            step_second=unit.jobs[SECOND].n,
        )
    return body


def _add_parameters(unit: UnitRows, mac: Mac, block: Block, body: Values) -> None:
    """Scales of the block's channels, and the table with the first: once an instruction, behind the first chunk."""
    layer, record = mac.layer, SCALE_BYTES[mac.layer["scale_form"]]
    before, length = record * (block.c - mac.values["c"]), record * block.channels
    memory, scales = split_address(layer["scales"] + record * mac.values["c"])
    words = run_words(scales, before + length) - (run_words(scales, before) if before else 0)
    unit.job(SCALES, mac.index, amount(memory, words, length), **body)
    if layer["use_table"] and not before:
        memory, table = split_address(layer["table"])
        amounts = amount(memory, run_words(table, TABLE_BYTES), TABLE_BYTES)
        unit.job(TABLE, mac.index, amounts, **body)


def _add_code_table(unit: UnitRows, mac: Mac) -> None:
    """The code table comes before the weights; a step without loads or outputs stands for filling the decoder."""
    layer = mac.layer
    length = TABLE_UNIT_BYTES * layer["code_table"]
    memory, table = split_address(layer["scales"] + code_table_offset(layer["ofm_channels"], layer["scale_form"]))
    unit.job(SECOND, mac.index, amount(memory, run_words(table, length), length))
    unit.steps.extend(
        1,
        step_instruction=mac.index,
        step_cycles=mac.decoder_cycles(STATES),
        step_after_block=unit.blocks.n,
        step_input=unit.jobs[INPUT].n,
        step_second=unit.jobs[SECOND].n,
    )
