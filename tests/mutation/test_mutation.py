"""Mutants whose outputs differ under some legal timing are caught; right programs never are (docs/mutation.md)."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from isa.codec import decode_all
from isa.container import read_container
from isa.instructions import Queue
from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.ops.integer.floating import Dequantize, LogSoftmax, Quantize
from npuc.ops.op import Op
from simulator.machine import Machine
from simulator.program import load
from tests.core.test_partition import between_convolutions, reversal
from tests.mutation.campaign import Campaign
from tests.mutation.mutants import mutants
from tests.mutation.networks import AMPLE, NETWORKS, Network, compiled, random_inputs
from tests.mutation.oracle import Oracle
from tests.mutation.timing import adversarial_timing, random_timing, timed
from tests.simulator.arm import mixed_binary

QUICK = {network.name: network for network in NETWORKS if network.sram_bytes < 6000}


@pytest.mark.parametrize("name", QUICK)
def test_whoever_differs_is_caught_and_right_programs_are_not(name: str) -> None:
    data = compiled(QUICK[name])
    campaign = Campaign(data)
    assert not campaign.false_alarms
    results = [campaign.examine(mutant) for mutant in mutants(data)]
    assert [result for result in results if result.escaped] == []
    kinds = Counter(result.kind for result in results if result.differs)
    assert kinds["drop"] + kinds["shift"] + kinds["swap"] > 2


MIXED: dict[str, Callable[[], bytes]] = {"by hand": mixed_binary, "reversal": lambda: mixed(reversal((1, 5, 8, 8), 1)),
         "floats": lambda: mixed(Dequantize(0.05, 3), LogSoftmax(), Quantize(0.05, 3)),
         "lenet300": lambda: compiled(Network("lenet300", "edge-256", AMPLE))}  # fmt: skip
"""Programs with Arm calls."""


def mixed(*operators: Op) -> bytes:
    graph = between_convolutions(*operators)
    return compile_model(graph, None, Options(load_target("edge-256"))).program


@pytest.mark.parametrize("name", MIXED)
def test_conditions_of_arm_calls_and_on_them_are_caught(name: str) -> None:
    """Every condition dropped and weakened; nobody reports a program that is right."""
    data = MIXED[name]()
    campaign = Campaign(data)
    assert not campaign.false_alarms
    results = [campaign.examine(mutant) for mutant in mutants(data)]
    assert [result for result in results if result.escaped] == []
    of_calls = [result for result in results if "call" in result.name or "arm>=" in result.name]
    assert of_calls
    assert sum(result.differs for result in of_calls) >= len(of_calls) // 3
    for result in results:
        assert bool(result.verifier) == bool(result.strict), result


def test_timings_are_legal() -> None:
    data = compiled(QUICK["mlperf_ad u55-like 768"])
    code = [instruction for _, instruction in decode_all(read_container(data).instructions)]
    program = timed(code, 4)
    timings = [random_timing(program, seed) for seed in range(8)]
    timings += [adversarial_timing(program, late=late) for late in (False, True)]
    for timing in timings:
        assert (timing.start <= timing.issued).all()
        assert (timing.issued <= timing.retired).all()
        for i, waits in enumerate(program.waits):
            assert all(timing.retired[j] < timing.start[i] for j in waits)
        for queue in Queue:
            line = [i for i, other in enumerate(program.queue) if other is queue and queue is not Queue.FETCH]
            for a, b in pairwise(line):
                assert timing.issued[a] < timing.start[b]
                assert timing.retired[a] < timing.retired[b]


def test_the_oracle_computes_what_the_machine_computes() -> None:
    data = compiled(QUICK["micro_speech u55-like 5968"])
    machine = Machine(load(data))
    inputs = random_inputs(machine)
    outputs = machine.run(inputs)
    assert not Oracle(data, inputs, outputs).judge(data).differs
    wrong = {name: np.where(array == array.max(), array - 1, array) for name, array in outputs.items()}
    assert Oracle(data, inputs, wrong).judge(data, 0).timing == "early"
