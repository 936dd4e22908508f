"""Compiled networks to mutate: in stripes, with line buffers, with memory used again, and with weights loaded ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from isa.target_file import load_target
from npuc.compiler import Options, compile_model, import_model
from simulator.machine import Machine
from simulator.memory import Array
from tests.shared_data import shared_file

AMPLE = 2 << 20


class Network(NamedTuple):
    """A TFLite model, its target and the sram that it is compiled for."""

    model: str
    target: str
    sram_bytes: int

    @property
    def name(self) -> str:
        """As results list it."""
        return f"{self.model} {self.target} {self.sram_bytes}"


NETWORKS = (
    Network("micro_speech", "u55-like", 5968),
    Network("mlperf_ad", "u55-like", 768),
    Network("mlperf_ad", "u55-like", AMPLE),
    Network("mlperf_kws", "u55-like", 16000),
    Network("mlperf_kws", "u55-like", AMPLE),
    Network("mlperf_kws", "edge-256", 24000),
    Network("mlperf_sww", "u55-like", 5904),
    Network("mlperf_sww", "edge-256", 18048),
    Network("armzoo_cnn_s", "u55-like", 6896),
    Network("mlperf_resnet8", "u55-like", 35840),
    Network("mlperf_resnet8", "edge-256", AMPLE),
    Network("mlonmcu_kws_m", "u55-like", 12208),
    Network("mlonmcu_kws_m", "edge-256", AMPLE),
    Network("person_detect", "u55-like", 30720),
)


def compiled(network: Network) -> bytes:
    """The program of a network."""
    graph = import_model(shared_file("models", "tflite", f"{network.model}.tflite"), {})
    options = Options(load_target(network.target), sram_bytes=network.sram_bytes)
    return compile_model(graph, None, options).program


def random_inputs(machine: Machine) -> Mapping[str, Array]:
    """Inputs of every value that their types have."""
    rng, inputs = np.random.default_rng(1), {}
    for name, entry in machine.inputs.items():
        kind = np.iinfo(entry.dtype)
        inputs[name] = rng.integers(kind.min, kind.max + 1, entry.shape, entry.dtype)
    return inputs
