"""Real networks: every one quantizes, and what it loses stays within bounds measured with the default observer."""

from pathlib import Path

import numpy as np
import pytest

from calibration import Preprocessing, load_inputs, load_labels
from npuc.graph.graph import Graph
from npuc.graph.types import Array
from npuc.importer.onnx import import_onnx
from npuc.passes import GRAPH_PASSES, run_passes
from npuc.ptq.accuracy import Accuracy, measure
from npuc.ptq.calibrate import calibrate_model
from npuc.ptq.quantize import quantize
from tests.shared_data import shared_file

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "fsdd_dscnn": {"input": (1, 49, 40)},
    "st_mobilenetv2_035_128": {"input_1": (1, 3, 128, 128)},
}


def read(name: str) -> Graph:
    model = shared_file("models", "onnx", f"{name}.onnx")
    return run_passes(import_onnx(str(model), SHAPES.get(name)), GRAPH_PASSES)


def load(graph: Graph, source: Path | str, preprocessing: Preprocessing | None = None) -> dict[str, Array]:
    return load_inputs(str(source), {name: graph.values[name].shape for name in graph.inputs}, preprocessing)


def judge(graph: Graph, calibration: dict[str, Array], test: dict[str, Array], labels: Array | None = None) -> Accuracy:
    return measure(graph, quantize(graph, calibrate_model(graph, calibration)), test, labels)


def labelled(name: str, calibration: str, test: str) -> Accuracy:
    """`calibration` and `test` are sources in the data folder, such as file.npz@:100."""
    graph = read(name)
    folder = shared_file("data")
    calibration_samples, samples = (load(graph, f"{folder}/{source}") for source in (calibration, test))
    return judge(graph, calibration_samples, samples, load_labels(f"{folder}/{test}"))


def test_resnet8_stays_close_to_float() -> None:
    accuracy = labelled("mlperf_ic_resnet8", "cifar10_calib256.npz", "cifar10_test2000.npz@:200")
    assert accuracy.sqnr_db > 32
    assert accuracy.agreement > 0.97


def test_mnist_keeps_its_accuracy() -> None:
    accuracy = labelled("mnist_cntk", "mnist_test.npz@:100", "mnist_test.npz@100:1100")
    assert accuracy.sqnr_db > 34
    assert accuracy.top1_float is not None
    assert accuracy.top1_int8 is not None
    assert accuracy.top1_int8 > accuracy.top1_float - 0.002


def test_spoken_digits_stay_close_to_float() -> None:
    accuracy = labelled("fsdd_dscnn", "fsdd_logmel_calib256.npz", "fsdd_logmel_test1020.npz@:200")
    assert accuracy.sqnr_db > 33


@pytest.mark.parametrize(
    ("name", "preprocessing", "floor_db"),
    [
        ("st_mobilenetv2_035_128", Preprocessing((128, 128), scale=127.5, mean=(1.0,)), 29),
        ("squeezenet11_224", Preprocessing((224, 224), resize="short-side", short_side=256, channel_order="BGR",
                                           mean=(104.0, 117.0, 123.0)), 31),
        ("ultraface_slim-320", Preprocessing((240, 320), mean=(127.0,), std=(128.0,)), 33),
    ],
)  # fmt: skip
def test_networks_on_photographs(name: str, preprocessing: Preprocessing, floor_db: float) -> None:
    graph, folder = read(name), shared_file("data", "images")
    calibration, test = (load(graph, f"{folder}@{start}::2", preprocessing) for start in (0, 1))
    assert judge(graph, calibration, test).sqnr_db > floor_db


@pytest.mark.parametrize(
    ("name", "floor_db"),
    [("mlperf_vww_mbv1_025", 38), ("mlperf_kws_dscnn", 31), ("mlperf_ad_ae", 26), ("mlonmcu_kws_m_fp32", 38)],
)
def test_networks_on_random_samples(name: str, floor_db: float, rng: np.random.Generator) -> None:
    graph = read(name)
    (x,) = graph.inputs
    shape = (32, *graph.values[x].shape[1:])
    draws = {"mlperf_vww_mbv1_025": rng.random(shape), "mlperf_ad_ae": rng.normal(-2.5, 1, shape)}
    samples = {x: np.asarray(draws.get(name, rng.standard_normal(shape)), np.float32)}
    assert judge(graph, samples, samples).sqnr_db > floor_db
