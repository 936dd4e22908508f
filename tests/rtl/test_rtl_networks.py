"""Whole networks on the core: every byte of sram against the simulator, and total cycles against the timing model.

The core has no vector unit: a network runs up to its first instruction of one, with coded weights, as the compiler
stores them, and with raw ones. The bench plays the fetcher of instructions.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from isa.codec import Instruction, encode
from isa.container import IoEntry, read_container, write_container
from isa.descriptors import Memory
from isa.target_file import load_target
from npuc.compiler import Options, compile_model, import_model
from npuc.lower import coding
from npuc.lower.kernel import Kernel, WeightPiece
from simulator.machine import Machine
from simulator.program import Program, load
from simulator.trace import timeline
from tests.rtl.bench import Job, n_supported, run
from tests.shared_data import shared_file

SRAM_BYTES = 1 << 20
LARGEST_ERROR = 0.03
POLICY = "layerwise"
"""All parameters are loaded to sram; the core reads no weights from flash."""


def compiled(model: str) -> Program:
    """The network on edge-64, without what follows its last convolution before the vector unit."""
    path = shared_file("models", "tflite", f"{model}.tflite")
    options = Options(load_target("edge-64"), sram_bytes=SRAM_BYTES, policy=POLICY)
    data = compile_model(import_model(path, {}), None, options).program
    program = load(data)
    n_bytes = int(program.code.length[: n_supported(program)].sum())
    container = read_container(data)
    if n_bytes < len(container.instructions):
        code = container.instructions[:n_bytes] + encode(Instruction("end", {}))
        data = write_container(replace(container, instructions=code, io=_inputs(container.io), metadata={}))
    return load(data)


def raw_pieces(kernel: Kernel, cuts: Sequence[tuple[int, int]], _: int) -> Kernel:
    """What the compiler's coder makes of a kernel, with every piece left raw."""
    weights, per_channel = kernel.parameters.weights, kernel.parameters.weight_channel_bytes
    pieces, stored = [], bytearray()
    for start, stop in cuts:
        piece = weights[start * per_channel : stop * per_channel]
        pieces.append(WeightPiece(start, stop, len(stored), len(stored) + len(piece), 0))
        stored += piece + bytes(-len(piece) % 8)
    return replace(kernel, parameters=replace(kernel.parameters, weights=bytes(stored), pieces=tuple(pieces)))


def _inputs(io: tuple[IoEntry, ...]) -> tuple[IoEntry, ...]:
    return tuple(entry for entry in io if entry.direction == "in")


@pytest.mark.parametrize("weights", ["raw", "coded"])
@pytest.mark.parametrize("model", ["mlperf_ad", "mlperf_kws"])
def test_network_is_bit_exact_and_near_the_timing_model(
    model: str, weights: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    if weights == "raw":
        monkeypatch.setattr(coding, "_code", raw_pieces)
    program = compiled(model)
    assert bool(program.code.fields["coded_words"].any()) == (weights == "coded")
    machine = Machine(program, SRAM_BYTES)
    sram = machine.memories.arrays[Memory.SRAM]
    inputs = {
        name: rng.integers(-128, 128, entry.shape, dtype=np.int8).astype(entry.dtype)
        for name, entry in machine.inputs.items()
    }
    machine.write_inputs(inputs)
    job = Job(program, sram.copy(), len(program.code))
    (result,) = run([job])
    machine.run(inputs)
    np.testing.assert_array_equal(result.sram, sram)
    predicted = timeline(program).total_cycles
    assert abs(result.total_cycles - predicted) <= LARGEST_ERROR * predicted, (result.total_cycles, predicted)
