"""Whole networks through the C kernels: every layer equals the reference, every output TensorFlow Lite Micro's."""

import time

import numpy as np
import pytest

from npuc.firmware.graph_runner import lower_to_kernels, run_program
from npuc.firmware.host import host_kernels
from npuc.graph.graph import Graph, evaluate
from npuc.importer.tflite import import_tflite
from tests.shared_data import shared_file

WITH_GOLDENS = ("mlperf_resnet8", "mlperf_resnet8_large", "mlperf_vww", "mlperf_kws", "mlperf_sww", "mlperf_ad",
                "micro_speech", "person_detect", "xtensa_mbv2_100_224", "armzoo_cnn_s", "mlonmcu_kws_m",
                "mnist_lstm", "keras_lstm_mnist", "dtln")  # fmt: skip
NETWORKS = (*WITH_GOLDENS, "armzoo_rnnoise", "emza_ssd_slim", "mbv1_025_128_u8", "mbv2_100_224_u8", "mcunet_det",
            "mcunet_vww", "mcunetv2_large", "mww_okay_nabu", "mww_vad", "tf2_mbv2_100_224_ptq",
            "movenet_lightning", "lenet300")  # fmt: skip


def load(name: str) -> Graph:
    return import_tflite(shared_file("models", "tflite", f"{name}.tflite").read_bytes(), name)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_equals_the_reference(name: str, rng: np.random.Generator) -> None:
    graph = load(name)
    values = [output for node in graph.nodes for output in node.outputs]
    feeds = {}
    for value in graph.inputs:
        kind = graph.values[value]
        limits = np.iinfo(kind.dtype)
        feeds[value] = rng.integers(limits.min, limits.max, kind.shape, kind.dtype, endpoint=True)
    expected = evaluate(graph, feeds, values)
    got = run_program(lower_to_kernels(graph), feeds, host_kernels(), values)
    assert [value for value in values if not np.array_equal(got[value], expected[value])] == []


@pytest.mark.parametrize("name", WITH_GOLDENS)
def test_every_output_equals_tensorflow_lite_micro(name: str) -> None:
    graph = load(name)
    samples = np.load(shared_file("golden", f"{name}.npz"))
    golden = np.load(shared_file("golden", f"{name}.tflm.npz"))
    program = lower_to_kernels(graph)
    for sample in range(5):
        feeds = {value: samples[f"in{i}_s{sample}"] for i, value in enumerate(graph.inputs)}
        outputs = run_program(program, feeds, host_kernels())
        for i, value in enumerate(graph.outputs):
            assert np.array_equal(outputs[value], golden[f"tflm_out{i}_s{sample}"])


def test_a_network_for_224_pixels_takes_less_than_a_second() -> None:
    graph = load("xtensa_mbv2_100_224")
    program = lower_to_kernels(graph)
    feeds = {graph.inputs[0]: np.zeros(graph.values[graph.inputs[0]].shape, np.int8)}
    start = time.process_time()
    run_program(program, feeds, host_kernels())
    assert time.process_time() - start < 1
