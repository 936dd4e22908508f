"""Steps of the units whose amounts flow: the vector unit and both DMA engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from isa.descriptors import ElementType, Memory, split_address
from isa.target import Rate, Target
from tests.stepped.model_access import (
    ELEMENT_BYTES,
    WORD,
    operand,
    plain,
    region_words,
    run_words,
    window,
)
from tests.stepped.model_mac import TABLE_BYTES, Values, output_blocks
from tests.stepped.model_plan import SECOND, STREAMS, Ints
from tests.stepped.model_unit import UnitRows, amount

BILINEAR_ONE = 1024
"""A whole input position in the fixed point of vec.bilinear."""


class Stretch(NamedTuple):
    """A part of an instruction: words read of both operands, items of work, words written."""

    first: int
    second: int
    items: int
    writes: int


def add_vector(
    unit: UnitRows, index: int, mnemonic: str, values: Values, layer: Values, target: Target
) -> tuple[list[int], int]:
    """One vector instruction; the resources of its streams and of its output."""
    first, second, output = (operand(layer, prefix)[0] for prefix in ("ifm", "ifm2", "ofm"))
    if mnemonic == "vec.table":
        second, table = split_address(layer["table"])
        unit.job(SECOND, index, amount(second, run_words(table, TABLE_BYTES), TABLE_BYTES))
        unit.tables = unit.jobs[SECOND].n
    rate = _rate(mnemonic, target)
    items = cycles = 0
    resource = unit.writes(output)
    for part in _PARTS[mnemonic](values, layer):
        items += part.items
        end = -(-items * rate.denominator // rate.numerator)
        reads = (amount(first, part.first), amount(second, part.second))
        unit.stream(index, reads, end - cycles, amount(output, part.writes), resource)
        cycles = end
    return [unit.reads(first), unit.reads(second), *[0] * (STREAMS - 2)], resource


def _rate(mnemonic: str, target: Target) -> Rate:
    costs = target.costs
    return {
        "vec.add": costs.vector_add,
        "vec.sub": costs.vector_add,
        "vec.mul": costs.vector_mul,
        "vec.table": costs.vector_table,
        "vec.sigmoid": costs.vector_table,
        "vec.tanh": costs.vector_table,
        "vec.softmax": costs.vector_softmax,
        "vec.maxpool": costs.vector_pool,
        "vec.avgpool": costs.vector_pool,
        "vec.mean": costs.vector_reduce,
        "vec.resize": costs.vector_copy,
        "vec.bilinear": costs.vector_mul,
        "vec.copy": costs.vector_copy,
    }[mnemonic]


def _line(values: Values, layer: Values, prefix: str, y: int, x: int, width: int) -> int:
    """Words of `width` pixels of row y in the channels of the region."""
    channels = (values["c"], values["c"] + values["channels"])
    return region_words(operand(layer, prefix)[1], values["n"], plain(y, 1), plain(x, width), *channels)


def _output_rows(values: Values) -> range:
    return range(values["y"], values["y"] + values["height"])


def _elementwise(values: Values, layer: Values) -> Iterator[Stretch]:
    x, width = values["x"], values["width"]
    for y in _output_rows(values):
        first, writes = (_line(values, layer, prefix, y, x, width) for prefix in ("ifm", "ofm"))
        yield Stretch(first, 0, width * values["channels"], writes)


def _two_operands(values: Values, layer: Values) -> Iterator[Stretch]:
    for y, part in zip(_output_rows(values), _elementwise(values, layer), strict=True):
        yield part._replace(second=_line(values, layer, "ifm2", y, values["x"], values["width"]))


def _copy(values: Values, layer: Values) -> Iterator[Stretch]:
    for part in _elementwise(values, layer):
        yield part._replace(items=part.items * ELEMENT_BYTES[ElementType(layer["ofm_type"])])


def _resize(values: Values, layer: Values) -> Iterator[Stretch]:
    """An input row is read when the first output row needs it."""
    sy, sx = layer["stride_h"], layer["stride_w"]
    x, end = values["x"], values["x"] + values["width"]
    left, right = x // sx, -(-end // sx)
    seen = -1
    for y, part in zip(_output_rows(values), _copy(values, layer), strict=True):
        is_new = y // sy != seen
        seen = y // sy
        yield part._replace(first=_line(values, layer, "ifm", seen, left, right - left) if is_new else 0)


def _bilinear(values: Values, layer: Values) -> Iterator[Stretch]:
    """Four products an element. Input rows are read up to the lower neighbour of each output row, every pixel once."""
    left = _neighbours(values["x"], layer["multiplier_2"], layer["mid_high"], layer["ifm_width"])[0]
    last = values["x"] + values["width"] - 1
    right = _neighbours(last, layer["multiplier_2"], layer["mid_high"], layer["ifm_width"])[1]
    done = _neighbours(values["y"], layer["multiplier_1"], layer["mid_low"], layer["ifm_height"])[0]
    for y, part in zip(_output_rows(values), _elementwise(values, layer), strict=True):
        end = _neighbours(y, layer["multiplier_1"], layer["mid_low"], layer["ifm_height"])[1] + 1
        rows = range(done, end)
        words = sum(_line(values, layer, "ifm", row, left, right + 1 - left) for row in rows)
        done = max(done, end)
        yield part._replace(first=words, items=4 * part.items)


def _neighbours(output: int, scale: int, offset: int, limit: int) -> tuple[int, int]:
    """Both input positions between which an output position lies."""
    place = output * scale + offset
    return max(place // BILINEAR_ONE, 0), min(-(-place // BILINEAR_ONE), limit - 1)


def _mean(values: Values, layer: Values) -> Iterator[Stretch]:
    """Nothing is written before the last row has been read."""
    width = layer["ifm_width"]
    for y in range(layer["ifm_height"]):
        yield Stretch(_line(values, layer, "ifm", y, 0, width), 0, width * values["channels"], 0)
    writes = (_line(values, layer, "ofm", y, values["x"], values["width"]) for y in _output_rows(values))
    yield Stretch(0, 0, 0, sum(writes))


def _pool(values: Values, layer: Values) -> Iterator[Stretch]:
    """A block reads its windows once."""
    first, output = operand(layer, "ifm")[1], operand(layer, "ofm")[1]
    for block in output_blocks(values, layer):
        channels = (block.c, block.c + block.channels)
        rows, pixels = window(layer, "h", block.y, block.height), window(layer, "w", block.x, block.width)
        reads = region_words(first, values["n"], rows, pixels, *channels)
        rows, pixels = plain(block.y, block.height), plain(block.x, block.width)
        writes = region_words(output, values["n"], rows, pixels, *channels)
        elements = block.height * block.width * block.channels
        yield Stretch(reads, 0, elements * layer["kernel_h"] * layer["kernel_w"], writes)


_PARTS: dict[str, Callable[[Values, Values], Iterator[Stretch]]] = {
    "vec.add": _two_operands,
    "vec.sub": _two_operands,
    "vec.mul": _two_operands,
    "vec.table": _elementwise,
    "vec.sigmoid": _elementwise,
    "vec.tanh": _elementwise,
    "vec.softmax": _elementwise,
    "vec.maxpool": _pool,
    "vec.avgpool": _pool,
    "vec.mean": _mean,
    "vec.resize": _resize,
    "vec.bilinear": _bilinear,
    "vec.copy": _copy,
}


def add_dma(unit: UnitRows, index: int, mnemonic: str, values: Values, record: Values) -> tuple[list[int], int]:
    """One copy or fill, word by word; the resources of source and destination."""
    target_memory, target_base = split_address(values["destination"])
    resource = unit.writes(target_memory)
    source = None if mnemonic == "dma.fill" else split_address(values["source"])
    reads: list[Ints] = []
    writes: list[Ints] = []
    needs: list[Ints] = []
    n_reads = 0
    for plane in _planes(values, record):
        for run in range(plane.runs):
            place = target_base + plane.destination + run * plane.destination_step
            ends = _word_ends(place, plane.run_bytes)
            writes.append(np.diff(ends, prepend=0) if target_memory is Memory.DRAM else np.ones_like(ends))
            if source is None:
                needs.append(np.zeros_like(ends))
                continue
            first = source[1] + plane.source + run * plane.source_step
            needs.append(n_reads + -(-(first % WORD + ends) // WORD))
            words = _word_ends(first, plane.run_bytes)
            reads.append(np.ones_like(words) if source[0] is Memory.SRAM else np.diff(words, prepend=0))
            n_reads += len(words)
    all_reads = np.concatenate([*reads, np.zeros(0, np.int64)])
    unit.copy(index, all_reads, np.concatenate(writes), np.concatenate(needs), resource)
    return [unit.reads(source[0]) if source else 0, *[0] * (STREAMS - 1)], resource


def _word_ends(first: int, n_bytes: int) -> Ints:
    """Bytes of a run up to the end of each of its words."""
    ends = np.arange(WORD - first % WORD, n_bytes + WORD, WORD, dtype=np.int64)
    return np.minimum(ends[: run_words(first, n_bytes)], n_bytes)


class Plane(NamedTuple):
    """Runs at equal distances: offsets from both base addresses, and the distances."""

    source: int
    destination: int
    runs: int
    run_bytes: int
    source_step: int
    destination_step: int


def _planes(values: Values, record: Values) -> Iterator[Plane]:
    if not record:
        yield Plane(0, 0, 1, values["length"], WORD, WORD)
        return
    steps = (record["source_1"], record["destination_1"])
    for group in range(record["size_3"]):
        for plane in range(record["size_2"]):
            source = group * record["source_3"] + plane * record["source_2"]
            destination = group * record["destination_3"] + plane * record["destination_2"]
            yield Plane(source, destination, record["size_1"], record["size_0"], *steps)
