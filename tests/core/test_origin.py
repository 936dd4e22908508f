"""Descriptors of one pixel that find their operands by the origin address the same bytes, and steps share them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isa.codec import decode_all
from isa.container import read_container
from isa.descriptors import LAYER, Memory, address
from isa.target_file import load_target
from npuc.emit.judge import stream_timeline
from npuc.emit.plan_judge import Judge
from npuc.emit.stream import emit_stream
from npuc.graph.graph import evaluate
from npuc.partition import partition
from npuc.passes import INTEGER_PASSES, run_passes
from npuc.schedule import storages_of
from npuc.schedule.plan import Search, schedule
from npuc.task.origin import AXES, placed_by_origin
from npuc.task.task import Plan
from simulator.machine import Machine
from simulator.program import load
from tests.passes.test_expand_lstm import lstm, network
from tests.verify.networks import compile_for


@given(bases=st.tuples(*[st.integers(0, (1 << 30) - 1)] * 3), memory=st.sampled_from([Memory.SRAM, Memory.FLASH]))
def test_the_origin_leads_to_the_same_bytes(bases: tuple[int, ...], memory: Memory) -> None:
    memories = (Memory.SRAM, Memory.SRAM, memory)
    record = {field.name: field.bias for field in LAYER.fields}
    for (prefix, *_), place, base in zip(AXES, memories, bases, strict=True):
        record |= {f"{prefix}_base": address(place, base), f"{prefix}_row": 24}
    fields, origin = placed_by_origin(record, is_vector=False)
    for prefix, *_ in AXES:
        at = sum(origin.get(axis, 0) * fields[f"{prefix}_{name}"] for _, axis, name, *_ in AXES)
        assert fields[f"{prefix}_base"] + at == record[f"{prefix}_base"]
    assert all(origin[axis] < limit for _, axis, _, limit, _ in AXES if axis in origin)


def test_time_steps_share_their_descriptors(rng: np.random.Generator) -> None:
    graph = network(lstm(), 24, rng)
    compiled = compile_for(graph)
    kinds = Counter(item.mnemonic for _, item in decode_all(read_container(compiled.program).instructions))
    assert kinds["vec.mul"] >= 70
    assert kinds["desc.load"] < 40
    x = rng.integers(-128, 128, (1, 24, 7)).astype(np.int8)
    outputs = Machine(load(compiled.program), 1 << 19, strict=True).run({"x": x})
    assert np.array_equal(outputs["y"], evaluate(graph, {"x": x})["y"])


@pytest.mark.parametrize("optimize", ["latency", "memory"])
def test_judge_loads_the_descriptors_that_are_emitted(optimize: str, rng: np.random.Generator) -> None:
    target = load_target("u55-like")
    part = partition(run_passes(network(lstm(), 12, rng), INTEGER_PASSES), target)
    judge = Judge(target)

    def both(plan: Plan) -> int:
        cycles = judge.cycles(plan)
        assert cycles == stream_timeline(emit_stream(plan, target), target).total_cycles
        return cycles

    schedule(Search(part.kernels, storages_of(part.graph, part.kernels), target, 1 << 16, both), optimize)
