"""The cycles of a MAC instruction alone, as docs/timing.md says: every word in its order, every part, every access.

The slow and obvious reference of edge-64 with raw weights in sram. Shares no code with `isa.timing`.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.rtl.shapes import Case

LANES = 8
LEAD, DRAIN = 48, 16
HALF_BYTES = 4096
"""Half of the weight buffer."""

Span = tuple[int, int]
"""First and how many."""


@dataclass(frozen=True)
class Word:
    """A read, and what it waits for: the begin of a chunk or unit, or the output of a block; -1: nothing."""

    chunk: int = -1
    unit: int = -1
    output: int = -1


@dataclass
class Part:
    """One group of output channels of one chunk: `needs` words of the order have come when it begins."""

    block: int
    chunk: int
    unit: int
    needs: int
    cycles: int
    makes: list[int]
    """Words of every access that it finishes."""


@dataclass
class Block:
    """A block of the output, and how many words of the order its output needs."""

    rows: Span
    pixels: Span
    channels: Span
    constants: int = 0
    residual: list[int] = field(default_factory=list)
    """For each access."""

    @property
    def groups(self) -> list[Span]:
        first, count = self.channels
        return [(first + at, min(LANES, count - at)) for at in range(0, count, LANES)]


def words(address: int, n_bytes: int) -> int:
    """Aligned words that a run touches."""
    return (address % 8 + n_bytes + 7) // 8


def cuts(first: int, extent: int, block: int) -> list[Span]:
    """An axis in blocks."""
    return [(first + at, min(block, extent - at)) for at in range(0, extent, block)]


class Order:
    """The words and parts of an instruction, in their order."""

    def __init__(self, case: Case) -> None:
        self.v, self.d = defaultdict(int, case.values), defaultdict(int, case.layer)
        self.is_depthwise = case.mnemonic == "mac.depthwise"
        self.taps = self.d["kernel_h"] * self.d["kernel_w"]
        self.words: list[Word] = []
        self.parts: list[Part] = []
        self.blocks: list[Block] = []
        self.n_chunks = self.n_units = 0
        v, d = self.v, self.d
        channels = cuts(v["c"], v["channels"], LANES * d["block_c"])
        constants: dict[Span, int] = {}
        for rows in cuts(v["y"], v["height"], d["block_h"]):
            for pixels in cuts(v["x"], v["width"], d["block_w"]):
                for of_block in channels:
                    block = Block(rows, pixels, of_block)
                    self._add_block(block, of_block not in constants)
                    block.constants = constants.setdefault(of_block, block.constants)

    @property
    def steps(self) -> int:
        """Of one position of a part."""
        if self.is_depthwise:
            return (self.taps + 3) // 4
        packed = self.d["kernel_h"] * -(-self.d["kernel_w"] * self.v["k_channels"] // LANES)
        return min(packed, self.taps) if self.v["k_channels"] < LANES else self.taps

    def _add_block(self, block: Block, needs_constants: bool) -> None:
        self.blocks.append(block)
        chunks = block.groups if self.is_depthwise else list(self._channel_blocks())
        stored = 0
        for index, chunk in enumerate(chunks):
            self._add_input(block, chunk)
            groups = block.groups[index : index + 1] if self.is_depthwise else block.groups
            ends = self.is_depthwise or index + 1 == len(chunks)
            stored = self._add_weights(block, chunk, groups, stored, whole=self.is_depthwise or len(chunks) == 1)
            for part, group in zip(self.parts[-len(groups) :], groups, strict=True):
                part.makes = self._accesses("ofm", block, group) if ends else []
            self.n_chunks += 1
            if index == 0 and needs_constants:
                self._add_constants(block)
        if self.d["use_residual"]:
            self._add_residual(block)

    def _channel_blocks(self) -> Iterator[Span]:
        """The chunks of the input channels."""
        at, end = self.v["k"], self.v["k"] + self.v["k_channels"]
        while at < end:
            count = min(LANES - at % LANES, end - at)
            yield at, count
            at += count

    def _add_input(self, block: Block, chunk: Span) -> None:
        count = sum(
            words(self._address("ifm", y, x, chunk[0]), chunk[1])
            for y in self._window("h", block.rows)
            for x in self._window("w", block.pixels)
        )
        self.words += [Word(chunk=self.n_chunks - 1)] * count

    def _window(self, axis: str, outputs: Span) -> list[int]:
        """Input rows (pixels) that output rows (pixels) need."""
        d = self.d
        stride, dilation = d[f"stride_{axis}"] or 1, d[f"dilation_{axis}"] or 1
        reach = (d[f"kernel_{axis}"] - 1) * dilation + 1
        pad, limit = (d["pad_top"], d["ifm_height"]) if axis == "h" else (d["pad_left"], d["ifm_width"])
        starts = [stride * (outputs[0] + i) - pad for i in range(outputs[1])]
        if stride > reach:
            return [p for s in starts for p in range(s, s + reach) if 0 <= p < limit]
        return list(range(max(starts[0], 0), min(starts[-1] + reach, limit)))

    def _add_weights(self, block: Block, chunk: Span, groups: list[Span], stored: int, *, whole: bool) -> int:
        """Adds the chunk's weights and parts. The weights of a block are one run where `whole`, of which `stored` bytes
        have come with the chunks before; returns how many have come with this one."""
        k_total = 1 if self.is_depthwise else self.v["k_channels"]
        before = 0
        for first, outputs in groups:
            n_bytes = self.taps * outputs * (1 if self.is_depthwise else chunk[1])
            if before and before + n_bytes > HALF_BYTES:
                self.n_units, before = self.n_units + 1, 0
            before += n_bytes
            address = self.v["weights"] + (block.channels[0] - self.v["c"]) * self.taps * k_total
            at = first - block.channels[0]
            count = 0
            if whole:
                while stored < (at + outputs) * self.taps * k_total:
                    stored += 8 - (address + stored) % 8
                    count += 1
            else:
                group = address + at * self.taps * k_total
                for tap in range(self.taps):
                    start = group + (tap * k_total + chunk[0] - self.v["k"]) * outputs
                    count += words(start, chunk[1] * outputs)
            self.words += [Word(unit=self.n_units - 1)] * count
            cycles = block.rows[1] * block.pixels[1] * self.steps
            index = len(self.blocks) - 1
            self.parts.append(Part(index, self.n_chunks, self.n_units, len(self.words), cycles, []))
        self.n_units += 1
        return stored

    def _add_constants(self, block: Block) -> None:
        first, count = block.channels
        record = (10, 6, 7, 8)[self.d["scale_form"]]
        self.words += [Word()] * words(self.d["scales"] + record * first, record * count)
        if len(self.blocks) == 1 and self.d["use_table"]:
            self.words += [Word()] * words(self.d["table"], 256)
        block.constants = len(self.words)

    def _add_residual(self, block: Block) -> None:
        gate = Word(output=len(self.blocks) - 3)
        for group in block.groups:
            for count in self._accesses("ifm2", block, group):
                self.words += [gate] + [Word()] * (count - 1)
                block.residual.append(len(self.words))
                gate = Word()

    def _accesses(self, tensor: str, block: Block, group: Span) -> list[int]:
        """Words of every position of a group."""
        rows, pixels = (range(first, first + count) for first, count in (block.rows, block.pixels))
        return [words(self._address(tensor, y, x, group[0]), group[1]) for y in rows for x in pixels]

    def _address(self, tensor: str, y: int, x: int, c: int) -> int:
        def of(name: str) -> int:
            return self.d[f"{tensor}_{name}"]

        total = self.d["ifm_channels" if tensor == "ifm" else "ofm_channels"]
        is_ragged = total % LANES != 0 and c // LANES == total // LANES
        pixel = (of("last_pixel") if is_ragged else 0) or of("pixel")
        row = (of("last_row") if is_ragged else 0) or of("row")
        y = y % of("ring") if of("ring") else y
        start = of("base") + self.v["n"] * of("batch") + c // LANES * of("block")
        return start + y * row + x * pixel + c % LANES


class Walk:
    """When everything happens; `issue_end` and `retire` in cycles from the start."""

    def __init__(self, case: Case) -> None:
        self.order = Order(case)
        self.arrivals = [LEAD]
        """When the first n words have come."""
        self.chunks: dict[int, int] = {}
        self.units: dict[int, int] = {}
        self.made: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)
        """Begins of the parts that make the output of a block, and its words."""
        self.outputs: list[int] = []
        end = 0
        for part in self.order.parts:
            end = self._begin(part, end) + part.cycles
        self._output(len(self.order.blocks))
        self.retire = self.outputs[-1] + DRAIN

    def _begin(self, part: Part, end: int) -> int:
        is_last = part is self.order.parts[-1]
        self._output(part.block if is_last else part.block - 1)
        begin = max(end, self._arrival(len(self.order.words) if is_last else part.needs))
        if part.block >= 2:
            begin = max(begin, self.outputs[part.block - 2])
        self.chunks.setdefault(part.chunk, begin)
        self.units.setdefault(part.unit, begin)
        if part.makes:
            self.made[part.block].append((begin, part.makes))
        self.issue_end = begin
        return begin

    def _arrival(self, count: int) -> int:
        while len(self.arrivals) <= count:
            word = self.order.words[len(self.arrivals) - 1]
            gates = [self.arrivals[-1], self.chunks.get(word.chunk, 0), self.units.get(word.unit, 0)]
            if word.output >= 0:
                gates.append(self.outputs[word.output])
            self.arrivals.append(max(gates) + 1)
        return self.arrivals[count]

    def _output(self, blocks: int) -> None:
        """Walks the output of the first blocks."""
        steps = self.order.steps
        for index in range(len(self.outputs), blocks):
            block = self.order.blocks[index]
            now, access = self.outputs[-1] if self.outputs else 0, 0
            constants = self._arrival(block.constants)
            for begin, counts in self.made[index]:
                for position, count in enumerate(counts):
                    made = begin + (position + 1) * steps - min(steps, count)
                    residual = self._arrival(block.residual[access]) if block.residual else 0
                    now, access = max(now, made, constants, residual) + count, access + 1
            self.outputs.append(now)
