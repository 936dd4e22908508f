"""TFLite models give the bytes of TensorFlow Lite Micro, and anything else gives one clear message."""

import re

import numpy as np
import pytest

from npuc.errors import ImportFailure, UnsupportedOp
from npuc.graph.graph import Graph, evaluate_stream
from npuc.graph.types import Host
from npuc.importer.tflite import import_tflite
from npuc.ops.integer.conv import QConv
from tests.shared_data import shared_file
from tests.tflite_models import LARGE, SMALL, golden_outputs, load, stored_samples, to_host


def test_lenet300_is_within_a_millionth_of_tensorflow_lite_micro() -> None:
    graph = load("lenet300")
    for sample, outputs in enumerate(evaluate_stream(graph, stored_samples(graph, "lenet300"))):
        (expected,) = golden_outputs(graph, "lenet300", sample)
        assert np.allclose(outputs[graph.outputs[0]], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_every_byte_equals_tensorflow_lite(name: str) -> None:
    graph = load(name)
    for sample, outputs in enumerate(evaluate_stream(graph, stored_samples(graph, name))):
        for value, expected in zip(graph.outputs, golden_outputs(graph, name, sample), strict=True):
            got = to_host(graph, value, outputs[value])
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(got, expected)


def views(graph: Graph) -> int:
    return sum(node.op.view for node in graph.nodes)


@pytest.mark.parametrize(("name", "count"), [("mlperf_resnet8", 2), ("mlperf_vww", 2), ("mlperf_ad", 2),
                                             ("xtensa_mbv2_100_224", 1)])  # fmt: skip
def test_chains_have_views_at_the_ends_only(name: str, count: int) -> None:
    assert views(load(name)) == count


def test_inputs_and_outputs_keep_the_order_and_names_of_the_file() -> None:
    graph = load("mlperf_resnet8")
    assert graph.values[graph.inputs[0]].shape == (1, 32, 32, 3)
    assert graph.values[graph.outputs[0]].shape == (1, 10)
    assert not any(":" in name.rpartition("/")[2] for name in (*graph.inputs, *graph.outputs))
    assert {source for node in graph.nodes for source in node.sources} >= {"CONV_2D#0", "SOFTMAX#15"}


def test_every_unsupported_operator_is_in_one_report() -> None:
    with pytest.raises(UnsupportedOp) as failure:
        load("deeplabv3_mnv2_dm05")
    found = re.findall(r"([A-Z_]+#\d+): ", failure.value.message)
    assert found == ["RESIZE_BILINEAR#64", "RESIZE_BILINEAR#69", "RESIZE_BILINEAR#70"]
    assert "3 of 72 operators" in failure.value.message


def test_float_inputs_and_outputs_are_stored_quantized() -> None:
    graph = load("mcunet_det")
    assert all(graph.host[name] == Host("float32", half_even=False) for name in (*graph.inputs, *graph.outputs))
    assert {graph.values[name].dtype for name in (*graph.inputs, *graph.outputs)} == {"int8"}


def test_uint8_inputs_reach_the_first_convolution_as_they_are() -> None:
    for name in ("mbv1_025_128_u8", "tf2_mbv2_100_224_ptq"):
        graph = load(name)
        first = next(node for node in graph.nodes if isinstance(node.op, QConv))
        assert graph.values[graph.inputs[0]].dtype == graph.values[first.inputs[0]].dtype == "uint8"
        assert graph.values[graph.outputs[0]].dtype == "uint8"


def test_variables_become_states_with_their_initial_contents() -> None:
    graph = load("mww_vad")
    assert [len(state.initial) for state in graph.states] == [128, 336, 576, 80]
    assert all(set(state.initial) == {-128} for state in graph.states)


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
    data = shared_file("models", "tflite", "micro_speech.tflite").read_bytes()
    for length in range(0, len(data), 97):
        message = import_damaged(data[:length])
        assert "\n" not in message
        assert message or length > len(data) - 1024


def test_damaged_models_never_crash(rng: np.random.Generator) -> None:
    data = shared_file("models", "tflite", "micro_speech.tflite").read_bytes()
    # Metadata of a flatbuffer surrounds the weights: damage both ends.
    places = np.concatenate([np.arange(2000), np.arange(len(data) - 4000, len(data))])
    for _ in range(1500):
        damaged = bytearray(data)
        for place in rng.choice(places, rng.integers(1, 4)):
            damaged[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, int(rng.integers(256))])
        import_damaged(bytes(damaged))
