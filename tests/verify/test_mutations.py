"""Every wait condition of compiled programs is dropped or weakened: the verdict is that of the brute-force twin."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from isa.codec import Instruction, decode_all, encode
from isa.container import read_container, write_container
from npuc.compiler import import_model
from npuc.verify import verify_program
from tests.shared_data import shared_file
from tests.verify.brute_force import captured, races, sram_flags, steps
from tests.verify.networks import compile_for, conv_add_softmax


def mutants(data: bytes) -> Iterator[tuple[list[Instruction], bytes]]:
    """Programs that lack one condition, or wait for one instruction less."""
    container = read_container(data)
    code = [instruction for _, instruction in decode_all(container.instructions)]
    for i, instruction in enumerate(code):
        used = [
            name.removesuffix("_queue") for name, v in instruction.values.items() if name.endswith("_queue") and v != 7
        ]
        for name in used:
            count = instruction.values[f"{name}_count"]
            dropped = {f"{name}_queue": 7, f"{name}_count": 0}
            for change in [dropped, {f"{name}_count": count - 1}] if count > 1 else [dropped]:
                other = [*code]
                other[i] = Instruction(instruction.mnemonic, {**instruction.values, **change})
                yield other, write_container(replace(container, instructions=b"".join(map(encode, other))))


def check_mutants(data: bytes) -> tuple[int, int]:
    """(mutants, mutants that race); the verifier says of each what brute force says."""
    flags = sram_flags(data)
    assert verify_program(data).ok
    assert not races(steps([instruction for instruction, _ in captured(data)]), flags)
    n_mutants = n_caught = 0
    for code, mutant in mutants(data):
        verdict, expected = verify_program(mutant), races(steps(code), flags)
        assert {race.instructions for race in verdict.races} == expected
        n_mutants, n_caught = n_mutants + 1, n_caught + bool(expected)
    return n_mutants, n_caught


@pytest.mark.parametrize("sram_bytes", [None, 1100])
@pytest.mark.parametrize("target", ["edge-256", "u55-like"])
def test_mutants_of_a_small_network(target: str, sram_bytes: int | None) -> None:
    n_mutants, n_caught = check_mutants(compile_for(conv_add_softmax(), target, sram_bytes, policy="layerwise").program)
    assert n_mutants >= 8
    assert n_caught >= n_mutants * 3 // 4


@pytest.mark.parametrize(("name", "sram_bytes"), [("mlperf_kws", 24000), ("mlperf_sww", 5500)])
def test_mutants_of_a_network_in_stripes(name: str, sram_bytes: int) -> None:
    graph = import_model(shared_file("models", "tflite", f"{name}.tflite"), {})
    n_mutants, n_caught = check_mutants(compile_for(graph, "edge-256", sram_bytes).program)
    assert n_mutants > 40
    assert n_caught > n_mutants // 2
