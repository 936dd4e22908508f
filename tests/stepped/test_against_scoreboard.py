"""`isa.timing` against the stepped model: random programs, and whole networks."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from isa.target_file import load_target
from npuc.compiler import Options, compile_model, import_model
from tests.shared_data import shared_file
from tests.stepped.compare import Comparison, agreement, compare
from tests.stepped.fuzz import MAC_KINDS, STREAM_KINDS, WEIGHTS, random_program

TARGETS = ("edge-256", "u55-like", "soc-1k")
SEEDS = range(12)


@cache
def comparisons(name: str, kinds: tuple[str, ...]) -> tuple[Comparison, ...]:
    target = load_target(name)
    return tuple(compare(random_program(seed, target, kinds), target) for seed in SEEDS)


def errors(name: str, kinds: tuple[str, ...]) -> NDArray[np.float64]:
    return np.array([abs(comparison.error) for comparison in comparisons(name, kinds)])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kinds", [tuple(WEIGHTS), STREAM_KINDS, MAC_KINDS], ids=["all", "stream", "mac"])
def test_every_program_is_within_2_percent(name: str, kinds: tuple[str, ...]) -> None:
    measured = errors(name, kinds)
    assert np.median(measured) <= 0.003
    assert measured.max() <= 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_stores_are_exact(seed: int) -> None:
    target = load_target("edge-256")
    assert compare(random_program(seed, target, ("dma.store", "dma.store4")), target).error == 0


@pytest.mark.parametrize("name", TARGETS)
def test_stall_cycles_have_the_same_class(name: str) -> None:
    for kinds in (tuple(WEIGHTS), STREAM_KINDS, MAC_KINDS):
        assert agreement(comparisons(name, kinds)) >= 0.98


@pytest.mark.parametrize("name", TARGETS)
def test_neither_model_deadlocks(name: str) -> None:
    for comparison in comparisons(name, tuple(WEIGHTS)):
        assert comparison.scoreboard.deadlock is None
        assert not comparison.stepped.is_deadlock


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("model", ["mlperf_ad", "micro_speech"])
def test_networks_are_within_2_percent(model: str, name: str) -> None:
    target = load_target(name)
    graph = import_model(shared_file("models", "tflite", f"{model}.tflite"), {})
    program = compile_model(graph, None, Options(target, sram_bytes=2 << 20)).program
    comparison = compare(program, target)
    assert abs(comparison.error) <= 0.02
    assert agreement([comparison]) >= 0.95
