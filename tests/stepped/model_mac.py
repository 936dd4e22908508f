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

SCALE_BYTES, TABLE_BYTES = 10, 256

Values = Mapping[str, int]


class Block(NamedTuple):
    """An output block: origin and size."""

    y: int
    x: int
    c: int
    height: int
    width: int
    channels: int


class Chunk(NamedTuple):
    """A step: input channels that come into the buffer (none: those of the step before stay), weights, outputs.

    `runs` (offset behind the block's first weight, length): where raw weights of several chunks lie apart."""

    start: int
    stop: int
    weight_bytes: int
    elements: int
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

    def chunks(self, block: Block) -> list[Chunk]:
        """Convolution: each channel block of the input meets the weights of `cout_lanes` outputs after the other."""
        pixels = block.height * block.width
        c0 = self.input[1].c0
        if self.is_depthwise:
            cut = pieces(block.c, block.c + block.channels, c0)
            return [Chunk(a, b, (b - a) * self.taps, (b - a) * pixels) for a, b in cut]
        k, lanes = self.values["k"], self.target.architecture.cout_lanes
        groups = [min(lanes, block.channels - g) for g in range(0, block.channels, lanes)]
        inputs = pieces(k, k + self.values["k_channels"], c0)
        return [
            Chunk(
                a,
                b if g == 0 else a,
                (b - a) * n * self.taps,
                n * pixels if (a, b) == inputs[-1] else 0,
                self._runs(a - k, b - k, g * lanes, n) if len(inputs) > 1 else (),
            )
            for a, b in inputs
            for g, n in enumerate(groups)
        ]

    def _runs(self, start: int, stop: int, output: int, n: int) -> tuple[tuple[int, int], ...]:
        """A piece of every tap: weights are [group][tap][input channel][output channel of the group]."""
        if self.coded_bytes:
            return ()
        depth = self.values["k_channels"]
        group = output * self.taps * depth
        return tuple((group + (tap * depth + start) * n, (stop - start) * n) for tap in range(self.taps))

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

    def input_amount(self, block: Block, chunk: Chunk) -> int:
        memory, tensor = self.input
        rows = window(self.layer, "h", block.y, block.height)
        pixels = window(self.layer, "w", block.x, block.width)
        return amount(memory, region_words(tensor, self.values["n"], rows, pixels, chunk.start, chunk.stop))


def add_mac(unit: UnitRows, mac: Mac) -> tuple[list[int], int]:
    """All blocks of an instruction; the resources of its streams and of its output."""
    layer = mac.layer
    ofm_memory, ofm = operand(layer, "ofm")
    bank = unit.next_bank()
    if mac.coded_bytes:
        _add_code_table(unit, mac)
    for block in output_blocks(mac.values, layer):
        first = (unit.jobs[INPUT].n, unit.jobs[SECOND].n)
        step = unit.steps.n
        _add_chunks(unit, mac, block)
        behind = {"job_step": step, "job_after_input": min(first[0] + 1, unit.jobs[INPUT].n)}
        if (block.y, block.x) == (mac.values["y"], mac.values["x"]):
            _add_parameters(unit, mac, block, {**behind, "job_after_second": first[1] + 1, "job_after_block": bank})
        rows, pixels = plain(block.y, block.height), plain(block.x, block.width)
        if layer["use_residual"]:
            memory, other = operand(layer, "ifm2")
            words = region_words(other, mac.values["n"], rows, pixels, block.c, block.c + block.channels)
            unit.job(RESIDUAL, mac.index, amount(memory, words), **behind, job_after_block=max(0, unit.blocks.n - 1))
        words = region_words(ofm, mac.values["n"], rows, pixels, block.c, block.c + block.channels)
        writes = amount(ofm_memory, words)
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


def _add_chunks(unit: UnitRows, mac: Mac, block: Block) -> None:
    """Steps of one block with their loads: a buffer half is free when the step before the last has used it."""
    chunks = mac.chunks(block)
    cycles = mac.cycles(block)
    memory, weights = split_address(mac.values["weights"])
    done_bytes = (block.c - mac.values["c"]) * sum(chunk.weight_bytes for chunk in chunks) // block.channels
    start, base = mac.stored_bytes(done_bytes), done_bytes
    for i, chunk in enumerate(chunks):
        step = unit.steps.n
        if chunk.stop > chunk.start:
            after = unit.previous_use(INPUT, step)
            unit.job(INPUT, mac.index, mac.input_amount(block, chunk), job_step=step, job_after_step=after)
        first, end = mac.stored_bytes(done_bytes), mac.stored_bytes(done_bytes + chunk.weight_bytes)
        done_bytes += chunk.weight_bytes
        words = run_words(weights + start, end - start) - (run_words(weights + start, first - start) if i else 0)
        if chunk.runs:
            words = sum(run_words(weights + base + at, length) for at, length in chunk.runs)
        after = unit.previous_use(SECOND, step)
        unit.job(SECOND, mac.index, amount(memory, words, end - first), job_step=step, job_after_step=after)
        array = cycles * (i + 1) // len(chunks) - cycles * i // len(chunks)
        unit.steps.extend(
            1,
            step_instruction=mac.index,
            step_cycles=max(array, mac.decoder_cycles(chunk.weight_bytes)),
            step_elements=chunk.elements,
            step_block=unit.blocks.n,
            step_input=unit.jobs[INPUT].n,
            step_second=unit.jobs[SECOND].n,
        )


def _add_parameters(unit: UnitRows, mac: Mac, block: Block, behind: Values) -> None:
    """Scales of the block's channels, and the table with the first: once an instruction, behind the first chunk."""
    layer, before = mac.layer, SCALE_BYTES * (block.c - mac.values["c"])
    memory, scales = split_address(layer["scales"] + SCALE_BYTES * mac.values["c"])
    length = SCALE_BYTES * block.channels
    words = run_words(scales, before + length) - (run_words(scales, before) if before else 0)
    unit.job(SCALES, mac.index, amount(memory, words, length), **behind)
    if layer["use_table"] and not before:
        memory, table = split_address(layer["table"])
        unit.job(TABLE, mac.index, amount(memory, run_words(table, TABLE_BYTES), TABLE_BYTES), **behind)


def _add_code_table(unit: UnitRows, mac: Mac) -> None:
    """The code table comes before the weights; a step without loads or outputs stands for filling the decoder."""
    layer = mac.layer
    length = TABLE_UNIT_BYTES * layer["code_table"]
    memory, table = split_address(layer["scales"] + code_table_offset(layer["ofm_channels"]))
    step = unit.steps.n
    unit.job(SECOND, mac.index, amount(memory, run_words(table, length), length), job_step=step)
    unit.steps.extend(
        1,
        step_instruction=mac.index,
        step_cycles=mac.decoder_cycles(STATES),
        step_block=unit.blocks.n,
        step_input=unit.jobs[INPUT].n,
        step_second=unit.jobs[SECOND].n,
    )
