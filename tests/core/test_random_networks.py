"""Random networks on random machines: the simulator computes every byte of the reference, and no program races."""

import contextlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.errors import DoesNotFit
from npuc.graph.graph import Graph, evaluate
from npuc.verify import verify_program
from simulator.machine import Machine
from simulator.program import load
from tests.core.random_networks import channelwise_networks, networks, random_inputs

TARGETS = ("edge-256", "u55-like", "edge-64", "edge-128")


def check(graph: Graph, target_name: str, sram_bytes: int | None, seed: int) -> int:
    """Compile, verify, run; the peak of SRAM in bytes."""
    compiled = compile_model(graph, None, Options(load_target(target_name), sram_bytes=sram_bytes))
    verdict = verify_program(compiled.program, compiled.debug_map, sram_bytes=sram_bytes)
    assert verdict.ok, (verdict.races + verdict.findings)[0].message
    inputs = random_inputs(graph, seed)
    expected = evaluate(graph, inputs)
    got = Machine(load(compiled.program), sram_bytes, strict=True).run(inputs)
    for name in graph.outputs:
        assert np.array_equal(got[name], expected[name]), name
    assert compiled.report["cycles"]["lower_bound"] <= compiled.report["cycles"]["predicted"]
    return int(compiled.report["sram"]["peak_bytes"])


@settings(max_examples=40)
@given(
    graph=networks() | channelwise_networks(),
    target=st.sampled_from(TARGETS),
    share=st.floats(0.5, 1.0),
    seed=st.integers(0, 1 << 16),
)
def test_random_networks_equal_their_reference(graph: Graph, target: str, share: float, seed: int) -> None:
    peak = check(graph, target, None, seed)
    with contextlib.suppress(DoesNotFit):
        check(graph, target, int(peak * share), seed)
