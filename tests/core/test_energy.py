"""Programs of least energy: never more than the fastest, never more with more memory, and counted alike everywhere."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from isa.target_file import load_target, target_from_dict, target_to_dict
from npuc.compiler import Options, compile_model, import_model
from npuc.errors import UsageError
from npuc.graph.graph import Graph
from npuc.schedule import plan
from npuc.schedule.candidate import Candidate
from simulator.program import load
from simulator.report import profile
from simulator.trace import timing
from tests.core.random_networks import networks
from tests.shared_data import shared_file
from tests.verify.networks import compile_for, conv_add_softmax


@pytest.mark.parametrize("sram_bytes", [64 << 10, 512 << 10])
def test_the_program_of_least_energy_takes_no_more_than_the_fastest(sram_bytes: int) -> None:
    graph = import_model(shared_file("models", "tflite", "mlperf_kws.tflite"), {})
    fastest = compile_for(graph, "edge-256", sram_bytes).report
    least = compile_for(graph, "edge-256", sram_bytes, "energy").report
    assert least["sram"]["peak_bytes"] <= sram_bytes
    assert least["energy"]["predicted_pj"] <= fastest["energy"]["predicted_pj"]
    assert least["cycles"]["predicted"] >= fastest["cycles"]["predicted"]
    assert least["energy"]["mac_pj"] == fastest["energy"]["mac_pj"]


def test_compiler_and_profile_count_alike() -> None:
    compiled = compile_for(conv_add_softmax(), optimize="energy")
    energy = compiled.report["energy"]
    assert profile(timing(load(compiled.program)), {}).energy == energy
    assert energy["predicted_pj"] == sum(value for key, value in energy.items() if key != "predicted_pj")


@settings(max_examples=15)
@given(graph=networks())
def test_bounds_hold_and_more_memory_never_takes_more_energy(graph: Graph) -> None:
    machine = load_target("u55-like")
    least = compile_model(graph, None, Options(machine, optimize="memory")).report["sram"]["peak_bytes"]
    tries, previous = plan._Run._tries, None

    def checked(run: plan._Run, option: plan.Option, capacity: int, below: int) -> Iterator[Candidate]:
        for candidate in tries(run, option, capacity, below):
            assert candidate.cost >= option.bound_cost
            yield candidate

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan._Run, "_tries", checked)
        for budget in (least, 2 * least, 1 << 20):
            report = compile_model(graph, None, Options(machine, budget, "energy")).report
            assert previous is None or report["energy"]["predicted_pj"] <= previous
            previous = report["energy"]["predicted_pj"]


def test_a_target_that_does_not_say_what_things_take() -> None:
    tables = {name: table for name, table in target_to_dict(load_target("edge-256")).items() if name != "energy"}
    silent = target_from_dict("mine", tables)
    compiled = compile_model(conv_add_softmax(), None, Options(silent))
    assert compiled.report["energy"] is None
    assert profile(timing(load(compiled.program)), {}).energy is None
    with pytest.raises(UsageError) as failure:
        compile_model(conv_add_softmax(), None, Options(silent, optimize="energy"))
    assert failure.value.message == "target mine has no table [energy], which --optimize energy needs"
    assert failure.value.hint


def test_cycles_and_energy_contradict_each_other() -> None:
    with pytest.raises(UsageError):
        compile_model(conv_add_softmax(), None, Options(load_target("edge-256"), optimize="energy", cycles=10**6))
