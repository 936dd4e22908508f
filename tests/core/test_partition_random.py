"""Random networks on machines of small limits, so that any operator may find itself on the Arm core."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.target import Target
from isa.target_file import load_target, target_from_dict, target_to_dict
from npuc.compiler import Options, compile_model
from npuc.firmware.host import host_kernels
from npuc.graph.graph import Graph, evaluate
from npuc.verify import verify_program
from simulator.machine import Machine
from simulator.program import load
from tests.core.random_networks import networks, random_inputs

LIMITS = {"kernel": 2, "pad": 1, "dilation": 1, "dimension": 40}


def small(name: str) -> Target:
    tables = target_to_dict(load_target(name))
    return target_from_dict(name, {**tables, "limits": {**tables["limits"], **LIMITS}})


TARGETS = tuple(map(small, ("edge-256", "u55-like", "edge-64")))


@settings(max_examples=25)
@given(graph=networks(), target=st.sampled_from(TARGETS), goal=st.sampled_from(["latency", "memory"]))
def test_mixed_programs_equal_their_reference(graph: Graph, target: Target, goal: str) -> None:
    compiled = compile_model(graph, None, Options(target, optimize=goal))
    verdict = verify_program(compiled.program, compiled.debug_map)
    assert verdict.ok, (verdict.races + verdict.findings)[0].message
    inputs = random_inputs(graph, 1)
    outputs = Machine(load(compiled.program), strict=True, kernels=host_kernels()).run(inputs)
    for name, expected in evaluate(graph, inputs).items():
        assert np.array_equal(outputs[name], expected), name
