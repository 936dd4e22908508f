"""Progress counters, conditions, waits and shared ports: programs over all queues, timed against the scoreboard."""

import numpy as np
import pytest

from isa.instructions import Queue
from simulator.program import Program, load
from simulator.trace import timeline
from tests.rtl.bench import run
from tests.rtl.shapes import IFM, OFM, Case, draw, expected_sram, job_of, memory
from tests.simulator.assemble import Assembly, sram

TICKS = 1024
COPY = 0x3000
"""Where the first bytes of the output go; behind every input."""

Random = np.random.Generator


def condition(place: int, queue: Queue, count: int, prefix: str = "wait") -> dict[str, int]:
    return {f"{prefix}{place}_queue": int(queue), f"{prefix}{place}_count": count}


def small_case(rng: Random) -> Case:
    """A convolution whose input leaves room for the copy of its output."""
    while True:
        case = draw(rng, "stem", aligned=True)
        if (
            case is not None
            and "ifm_ring" not in case.layer
            and case.layer["ifm_height"] * case.layer["ifm_width"] < 100
        ):
            return case


def chain(rng: Random) -> Program:
    """load -> (wait) -> conv -> store -> conv -> (wait for everything): each step waits for the one before it."""
    case = small_case(rng)
    assembly = Assembly("edge-64")
    flash = assembly.constant(rng.integers(0, 256, 256, dtype=np.uint8).tobytes())
    assembly.add("dma.load", {"source": flash, "destination": sram(IFM), "length": 200})
    assembly.add("wait.mac", condition(0, Queue.DMA_IN, 1))
    assembly.add(case.mnemonic, {**case.values, **condition(1, Queue.DMA_IN, 1)}, case.layer)
    store = {"source": sram(OFM), "destination": sram(COPY), "length": 100}
    assembly.add("dma.store", {**store, **condition(2, Queue.MAC, 2)})
    assembly.add(case.mnemonic, {**case.values, **condition(0, Queue.DMA_OUT, 1)}, case.layer)
    assembly.add("wait.dma-in", {**condition(0, Queue.MAC, 3), **condition(0, Queue.DMA_OUT, 1, "more")})
    return load(assembly.container())


@pytest.mark.parametrize("seed", range(8))
def test_a_chain_of_conditions_starts_every_instruction_when_the_scoreboard_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program, before = chain(rng), memory(rng)
    (result,) = run([job_of(program, before)])
    np.testing.assert_array_equal(result.sram, expected_sram(program, before))
    predicted = timeline(program)
    queued = program.code.queue < 3
    start = result.times[queued, 0] - np.rint(predicted.start[queued] / TICKS)
    retire = result.times[queued, 2] - np.rint(predicted.retire[queued] / TICKS)
    # Shares are rounded to ticks. Turns at the flash are bytes and not a fluid; a wait takes a cycle to pass.
    for off in (start, retire):
        assert off.min() >= -1, off
        assert off.max() <= 1, off


def test_units_that_use_a_port_at_once_share_it_as_the_scoreboard_says(rng: Random) -> None:
    """A long store beside convolutions: totals are near, though turns are words and not a fluid."""
    assembly = Assembly("edge-64")
    cases = [case for _ in range(8) if (case := draw(rng, "stem", aligned=True)) is not None]
    assembly.add("dma.store", {"source": sram(0x8000), "destination": sram(0xC000), "length": 4096})
    for case in cases:
        assembly.add(case.mnemonic, case.values, case.layer)
    program, before = load(assembly.container()), memory(rng)
    (result,) = run([job_of(program, before)])
    predicted = timeline(program).total_cycles
    assert abs(result.total_cycles - predicted) <= 0.03 * predicted
