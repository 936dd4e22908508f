"""TFLite networks of the shared folder: graphs, inputs as they are stored, and the outputs that are right."""

import os
from collections.abc import Iterator

import numpy as np

from isa.arithmetic import dequantize, quantize
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.importer.tflite import import_tflite
from tests.shared_data import shared_file

IS_LONG = os.environ.get("NPUC_LONG") == "1"
"""The long run takes all samples of large networks, too."""

SMALL = (
    "mlperf_resnet8", "mlperf_resnet8_large", "mlperf_vww", "mlperf_kws", "mlperf_sww", "mlperf_ad", "micro_speech",
    "person_detect", "armzoo_cnn_s", "mlonmcu_kws_m", "mbv1_025_128_u8", "mcunet_vww", "mcunet_det", "emza_ssd_slim",
    "armzoo_rnnoise", "mww_okay_nabu", "mww_vad", "mnist_lstm", "dtln", "keras_lstm_mnist",
)  # fmt: skip

LARGE = (
    "xtensa_mbv2_100_224", "mbv1_050_160_u8", "mbv2_100_224_u8", "tf2_mbv2_100_224_ptq", "mcunetv2_large",
    "movenet_lightning",
)  # fmt: skip


def load(name: str) -> Graph:
    """Graph of a network of the shared folder."""
    return import_tflite(shared_file("models", "tflite", f"{name}.tflite").read_bytes(), name)


def n_samples(name: str) -> int:
    """Samples to run: all five, of a large network only one unless the run is long."""
    return 5 if IS_LONG or name not in LARGE else 1


def stored_samples(graph: Graph, name: str) -> Iterator[dict[str, Array]]:
    """Inputs of each sample as the graph takes them: floats are quantized at its border."""
    arrays = np.load(shared_file("golden", f"{name}.npz"))
    for sample in range(n_samples(name)):
        yield {value: to_stored(graph, value, arrays[f"in{i}_s{sample}"]) for i, value in enumerate(graph.inputs)}


def to_stored(graph: Graph, value: str, array: Array) -> Array:
    """What the graph takes for `array`."""
    kind, host = graph.values[value], graph.host.get(value)
    if host is None or kind.quant is None:
        return array
    assert array.dtype == host.dtype
    return quantize(array, kind.quant.scale, kind.quant.zero_point, kind.dtype, host.half_even)


def to_host(graph: Graph, value: str, array: Array) -> Array:
    """What the host sees of `array`."""
    kind = graph.values[value]
    if value not in graph.host or kind.quant is None:
        return array
    return dequantize(array, kind.quant.scale, kind.quant.zero_point)


def golden_outputs(graph: Graph, name: str, sample: int) -> list[Array]:
    """Outputs of TensorFlow Lite Micro where it runs the network, else those of LiteRT's reference kernels."""
    folder = shared_file("golden")
    has_micro = (folder / f"{name}.tflm.npz").exists()
    arrays = np.load(folder / (f"{name}.tflm.npz" if has_micro else f"{name}.npz"))
    prefix = "tflm_out" if has_micro else "out"
    return [arrays[f"{prefix}{i}_s{sample}"] for i in range(len(graph.outputs))]
