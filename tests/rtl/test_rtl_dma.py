"""DMA units: copies byte for byte against the simulator, their cycles against the timing model, and run by run."""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from simulator.program import Program, load
from simulator.trace import timing
from tests.rtl.bench import Job, run
from tests.rtl.shapes import expected_sram
from tests.simulator.assemble import SRAM_BYTES, Assembly, sram

Random = np.random.Generator
Fields = dict[str, int]

TICKS = 1024
SOURCE, DESTINATION = 0x0000, 0x8000
SET_UP, LATENCY = 16, 32

EXCESS = {"dma.store": 1, "dma.store4": 4}
"""Cycles more than predicted: a word of the destination that needs two words of the source waits for the second.
`store_cycles` has them exactly."""


def contiguous(rng: Random, source: int) -> tuple[Fields, None]:
    length = int(rng.choice([rng.integers(1, 40), rng.integers(1, 3000)]))
    start = int(rng.integers(0, 8))
    place = sram(DESTINATION + int(rng.integers(0, 8)))
    return {"source": source + start, "destination": place, "length": length}, None


def strided(rng: Random, source: int) -> tuple[Fields, Fields]:
    """Runs in up to three outer dimensions; destinations do not overlap."""
    size_0 = int(rng.choice([rng.integers(1, 9), rng.integers(1, 60)]))
    sizes = [int(n) for n in rng.integers(1, 5, 3)]
    descriptor = {"size_0": size_0, **{f"size_{i}": n for i, n in enumerate(sizes, 1)}}
    inner = size_0
    for i, n in enumerate(sizes, 1):
        descriptor[f"source_{i}"] = int(rng.integers(0, 80))
        descriptor[f"destination_{i}"] = inner + int(rng.integers(0, 5))
        inner = descriptor[f"destination_{i}"] * n
    start, place = int(rng.integers(0, 8)), sram(DESTINATION + int(rng.integers(0, 8)))
    return {"source": source + start, "destination": place}, descriptor


def filled(rng: Random, _: int) -> tuple[Fields, Fields]:
    values, descriptor = strided(rng, 0)
    return {"destination": values["destination"], "value": int(rng.integers(0, 256))}, descriptor


DRAWS: dict[str, Callable[[Random, int], tuple[Fields, Fields | None]]] = {
    "dma.load": contiguous,
    "dma.load4": strided,
    "dma.store": contiguous,
    "dma.store4": strided,
    "dma.fill": filled,
}


def program_with(rng: Random, mnemonics: list[str]) -> Program:
    assembly = Assembly("edge-64")
    flash = assembly.constant(rng.integers(0, 256, 4096, dtype=np.uint8).tobytes())
    for mnemonic in mnemonics:
        source = flash if mnemonic.startswith("dma.load") else sram(SOURCE)
        values, descriptor = DRAWS[mnemonic](rng, source)
        assembly.add(mnemonic, values, descriptor)
    return load(assembly.container())


def memory(rng: Random) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return rng.integers(0, 256, SRAM_BYTES, dtype=np.uint8)


@pytest.mark.parametrize("mnemonic", DRAWS)
def test_a_copy_alone_is_exact_and_takes_the_cycles_of_the_timing_model(mnemonic: str, rng: Random) -> None:
    programs = [program_with(rng, [mnemonic]) for _ in range(40)]
    jobs = [Job(program, memory(rng), len(program.code)) for program in programs]
    for job, result in zip(jobs, run(jobs), strict=True):
        index = len(job.program.code) - 2
        np.testing.assert_array_equal(result.sram, expected_sram(job.program, job.sram))
        times = timing(job.program).timeline
        predicted = int(times.retire[index] - times.start[index]) // TICKS
        start, _, retire = result.times[index]
        assert 0 <= retire - start - predicted <= EXCESS.get(mnemonic, 0), job.program.values(index)


def runs(program: Program, index: int) -> tuple[int, list[tuple[int, int]]]:
    """Bytes of a run, and where each begins on both sides."""
    values = program.values(index)
    fields = program.descriptor(index) if program.spec(index).descriptor else {"size_0": values["length"]}

    def places(side: str) -> Iterator[int]:
        for outer in product(*(range(fields.get(f"size_{i}", 1)) for i in (3, 2, 1))):
            strides = [fields.get(f"{side}_{i}", 0) for i in (3, 2, 1)]
            yield values[side] + sum(at * stride for at, stride in zip(outer, strides, strict=True))

    return fields["size_0"], list(zip(places("source"), places("destination"), strict=True))


def store_cycles(program: Program, index: int) -> int:
    """A word a cycle on each side; a word of the destination is written when the word with its last byte has come."""
    n_bytes, places = runs(program, index)
    read = now = 0
    for source, destination in places:
        first, place = source % 8, destination % 8
        for end in (*range(8 - place, n_bytes, 8), n_bytes):
            now = max(now + 1, read + (first + end + 7) // 8)
        read += (first + n_bytes + 7) // 8
    return SET_UP + now + LATENCY


@pytest.mark.parametrize("mnemonic", ["dma.store", "dma.store4"])
def test_a_store_writes_a_word_when_its_last_byte_has_come(mnemonic: str, rng: Random) -> None:
    programs = [program_with(rng, [mnemonic]) for _ in range(60)]
    jobs = [Job(program, memory(rng), len(program.code)) for program in programs]
    for job, result in zip(jobs, run(jobs), strict=True):
        index = len(job.program.code) - 2
        start, _, retire = result.times[index]
        assert retire - start == store_cycles(job.program, index), job.program.values(index)
