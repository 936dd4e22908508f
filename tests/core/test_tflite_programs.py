"""Programs of TFLite networks give, on the simulator, the bytes of TensorFlow Lite Micro."""

import numpy as np
import pytest

from isa.target_file import load_target
from npuc.compiler import Options, compile_model
from npuc.firmware.host import host_kernels
from simulator.machine import Machine
from simulator.program import load as load_program
from tests.tflite_models import IS_LONG, LARGE, SMALL, golden_outputs, load, stored_samples, to_host

SRAM_BYTES = 1 << 21

QUICK = [*(name for name in SMALL if name not in ("mlperf_resnet8_large", "keras_lstm_mnist")), "lenet300"]

NETWORKS = [*SMALL, *LARGE, "lenet300"] if IS_LONG else QUICK
"""Those that take long to compile are left to the long run (NPUC_LONG=1)."""


@pytest.mark.parametrize("name", NETWORKS)
def test_every_byte_of_the_program_equals_tensorflow_lite(name: str) -> None:
    graph = load(name)
    compiled = compile_model(graph, None, Options(load_target("edge-256"), SRAM_BYTES, strip=True))
    machine = Machine(load_program(compiled.program), SRAM_BYTES, strict=True, kernels=host_kernels())
    for sample, inputs in enumerate(stored_samples(graph, name)):
        outputs = machine.run(inputs)
        for value, expected in zip(graph.outputs, golden_outputs(graph, name, sample), strict=True):
            assert np.array_equal(to_host(graph, value, outputs[value]), expected)


def test_reset_starts_a_stream_again() -> None:
    graph = load("mww_vad")
    compiled = compile_model(graph, None, Options(load_target("edge-256"), SRAM_BYTES, strip=True))
    machine = Machine(load_program(compiled.program), SRAM_BYTES)
    runs = []
    for _ in range(2):
        runs.append([machine.run(inputs)[graph.outputs[0]].item() for inputs in stored_samples(graph, "mww_vad")])
        machine.reset()
    assert runs[0] == runs[1]
