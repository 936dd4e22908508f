"""TFLite models give the bytes of TensorFlow Lite Micro, and anything else gives one clear message."""

import re

import numpy as np
import pytest

from npuc.errors import ImportFailure, UnsupportedOp
from npuc.graph.graph import Graph, evaluate
from npuc.importer.tflite import import_tflite
from tests.shared_data import shared_file

MODELS = ("mlperf_resnet8", "mlperf_resnet8_large", "mlperf_vww", "mlperf_kws", "mlperf_sww", "mlperf_ad",
          "micro_speech", "person_detect", "xtensa_mbv2_100_224", "armzoo_cnn_s", "mlonmcu_kws_m")  # fmt: skip


def load(name: str) -> bytes:
    return shared_file("models", "tflite", f"{name}.tflite").read_bytes()


def views(graph: Graph) -> int:
    return sum(node.op.view for node in graph.nodes)


@pytest.mark.parametrize("name", MODELS)
def test_every_byte_equals_tensorflow_lite_micro(name: str) -> None:
    graph = import_tflite(load(name), name)
    inputs = np.load(shared_file("golden", f"{name}.npz"))
    golden = np.load(shared_file("golden", f"{name}.tflm.npz"))
    for sample in range(5):
        feeds = {value: inputs[f"in{i}_s{sample}"] for i, value in enumerate(graph.inputs)}
        outputs = evaluate(graph, feeds)
        for i, value in enumerate(graph.outputs):
            expected = golden[f"tflm_out{i}_s{sample}"]
            assert outputs[value].dtype == expected.dtype
            assert np.array_equal(outputs[value], expected)


@pytest.mark.parametrize(("name", "count"), [("mlperf_resnet8", 2), ("mlperf_vww", 2), ("mlperf_ad", 2),
                                             ("xtensa_mbv2_100_224", 1)])  # fmt: skip
def test_chains_have_views_at_the_ends_only(name: str, count: int) -> None:
    assert views(import_tflite(load(name), name)) == count


def test_inputs_and_outputs_keep_the_order_and_names_of_the_file() -> None:
    graph = import_tflite(load("mlperf_resnet8"), "resnet8")
    assert graph.values[graph.inputs[0]].shape == (1, 32, 32, 3)
    assert graph.values[graph.outputs[0]].shape == (1, 10)
    assert not any(":" in name.rpartition("/")[2] for name in (*graph.inputs, *graph.outputs))
    assert {source for node in graph.nodes for source in node.sources} >= {"CONV_2D#0", "SOFTMAX#15"}


def test_every_unsupported_operator_is_in_one_report() -> None:
    with pytest.raises(UnsupportedOp) as failure:
        import_tflite(load("mcunet_vww"), "mcunet")
    found = re.findall(r"([A-Z_]+#\d+): ", failure.value.message)
    assert found == ["QUANTIZE#0", "MEAN#59", "MEAN#60", "DEQUANTIZE#62"]
    assert "4 of 63 operators" in failure.value.message
    with pytest.raises(UnsupportedOp, match="CONV_2D#0: weights are UINT8"):
        import_tflite(load("mbv1_025_128_u8"), "uint8")


@pytest.mark.parametrize("name", ["mww_vad", "mnist_lstm", "deeplabv3_mnv2_dm05", "armzoo_rnnoise"])
def test_models_with_other_operators_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedOp):
        import_tflite(load(name), name)


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0" * 64, b"\x10\0\0\0ONNX" + b"\0" * 64, b"\xff" * 4 + b"TFL3",
                                  b"\x08\0\0\0TFL3" + b"\xff" * 64])  # fmt: skip
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ImportFailure):
        import_tflite(data, "bytes")


def import_damaged(data: bytes) -> str:
    """Message of the failure, empty when the damage did not matter; anything but our own errors passes through."""
    try:
        import_tflite(data, "damaged")
    except (ImportFailure, UnsupportedOp) as failure:
        return failure.message
    return ""


def test_truncated_models_are_refused() -> None:
    data = load("micro_speech")
    for length in range(0, len(data), 97):
        message = import_damaged(data[:length])
        assert "\n" not in message
        assert message or length > len(data) - 1024


def test_damaged_models_never_crash(rng: np.random.Generator) -> None:
    data = load("micro_speech")
    # Metadata of a flatbuffer surrounds the weights: damage both ends.
    places = np.concatenate([np.arange(2000), np.arange(len(data) - 4000, len(data))])
    for _ in range(1500):
        damaged = bytearray(data)
        for place in rng.choice(places, rng.integers(1, 4)):
            damaged[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))])
        import_damaged(bytes(damaged))
