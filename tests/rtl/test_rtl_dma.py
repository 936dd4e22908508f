"""DMA units: copies byte for byte against the simulator, their cycles against the timing model."""

from collections.abc import Callable

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
    programs = [program_with(rng, [mnemonic]) for _ in range(100)]
    jobs = [Job(program, memory(rng), len(program.code)) for program in programs]
    for job, result in zip(jobs, run(jobs), strict=True):
        index = len(job.program.code) - 2
        np.testing.assert_array_equal(result.sram, expected_sram(job.program, job.sram))
        times = timing(job.program).timeline
        predicted = int(times.retire[index] - times.start[index]) // TICKS
        start, _, retire = result.times[index]
        assert retire - start == predicted, job.program.values(index)
