"""Mutants whose outputs differ under some legal timing are caught; right programs never are (docs/mutation.md)."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from isa.codec import decode_all
from isa.container import read_container
from isa.instructions import Queue
from simulator.machine import Machine
from simulator.program import load
from tests.mutation.campaign import Campaign
from tests.mutation.mutants import mutants
from tests.mutation.networks import NETWORKS, compiled, random_inputs
from tests.mutation.oracle import Oracle
from tests.mutation.timing import adversarial_timing, random_timing, timed

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
