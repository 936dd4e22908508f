"""The stepped model on programs small enough to time by hand, its books, and its two builds."""

from collections.abc import Mapping
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest

from isa.codec import Instruction, encode
from isa.container import read_container
from isa.descriptors import Memory, address
from isa.instructions import INSTRUCTIONS, Queue
from isa.target_file import load_target
from tests.stepped import jit, model, model_control, model_units
from tests.stepped.fuzz import WEIGHTS, random_program
from tests.stepped.model import Stepped, step_plan, step_program
from tests.stepped.model_builder import build_plan
from tests.stepped.model_plan import DMA_IN, DMA_OUT
from tests.stepped.model_state import BUSY, ON_CONDITION, ON_FETCH, ON_FLASH, ON_LATENCY

EDGE = load_target("edge-256")
FLASH, SRAM = address(Memory.FLASH, 0), address(Memory.SRAM, 0)


def run(*rows: tuple[str, Mapping[str, int]]) -> Stepped:
    code = b"".join(encode(Instruction(mnemonic, values)) for mnemonic, values in (*rows, ("end", {})))
    return step_plan(build_plan(code, b"", EDGE))


def load(length: int) -> tuple[str, Mapping[str, int]]:
    return "dma.load", {"source": FLASH, "destination": SRAM, "length": length}


def wait(queue: Queue, count: int) -> Mapping[str, int]:
    return {"wait0_queue": int(queue), "wait0_count": count}


def test_one_load_by_hand() -> None:
    stepped = run(load(800))
    # 64 latency, 24 bytes and 4 dispatch; 16 set-up; 800 bytes, against the last bytes of the stream; 64 latency.
    assert stepped.start[0] == 92
    assert stepped.cycles == 92 + 16 + 800 + 64
    spent = stepped.spent[DMA_IN]
    assert (spent[ON_FETCH], spent[BUSY], spent[ON_FLASH]) == (92, 100, 700)
    assert spent.sum() == stepped.cycles


def test_two_loads_follow_each_other_without_a_gap_but_the_set_up() -> None:
    stepped = run(load(800), load(800))
    assert stepped.retire[1] - stepped.retire[0] == 16 + 800


def test_a_condition_on_another_queue_delays_the_start() -> None:
    store = {"source": SRAM, "destination": SRAM, "length": 80, **wait(Queue.DMA_IN, 1)}
    stepped = run(load(800), ("dma.store", store))
    assert stepped.start[1] == stepped.retire[0]
    assert stepped.spent[DMA_OUT, ON_CONDITION + Queue.DMA_IN] > 0
    assert stepped.cycles == stepped.start[1] + 16 + 10 + 32
    assert stepped.spent[DMA_OUT, ON_LATENCY] == 16 + 32


def test_a_condition_of_the_fetcher_holds_what_is_behind_it() -> None:
    descriptor = {"slot": 0, "words": 1, "address": FLASH, **wait(Queue.DMA_IN, 1)}
    stepped = run(load(800), ("desc.load", descriptor), load(8))
    assert stepped.start[2] == stepped.retire[0] + 64 + 8 + 4


def test_two_heads_that_wait_for_each_other_deadlock() -> None:
    store = {"source": SRAM, "destination": SRAM, "length": 80, **wait(Queue.DMA_IN, 1)}
    stepped = run(("dma.store", store), (load(8)[0], {**load(8)[1], **wait(Queue.DMA_OUT, 1)}))
    assert stepped.is_deadlock
    assert stepped.start.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("name", ["edge-256", "u55-like", "soc-1k"])
def test_every_cycle_of_a_queue_is_charged_once(name: str) -> None:
    target = load_target(name)
    for seed in range(5):
        container = random_program(seed, target)
        stepped = step_program(container, target)
        plan = build_plan(read_container(container).instructions, container, target)
        for queue in range(4):
            last = stepped.retire[plan.queue == queue].max(initial=0)
            assert stepped.spent[queue].sum() == last


def test_plain_python_gives_the_same_cycles() -> None:
    container = random_program(3, EDGE, ("dma.load", "dma.store"), n_layers=2)
    plan = build_plan(read_container(container).instructions, container, EDGE)
    compiled = step_plan(plan)
    with ExitStack() as stack:
        for module in (model, model_control, model_units):
            for name, kernel in list(vars(module).items()):
                if hasattr(kernel, "py_func"):
                    stack.enter_context(patch.object(module, name, kernel.py_func))
        plain = step_plan(plan)
    assert np.array_equal(plain.retire, compiled.retire)
    assert np.array_equal(plain.spent, compiled.spent)


def test_without_numba_functions_stay_as_they_are() -> None:
    with patch.dict("sys.modules", {"numba": None}):
        assert jit.compiled(load) is load


def test_the_fuzzer_draws_every_instruction_that_has_a_unit() -> None:
    units = {spec.mnemonic for spec in INSTRUCTIONS if spec.queue is not Queue.FETCH}
    assert {name for name in units if not name.startswith("wait.")} == set(WEIGHTS)
