"""Real networks keep their values: imported, after every pass, by numpy and by onnxruntime."""

import numpy as np
import pytest

from npuc.graph.float_evaluate import FloatEvaluator
from npuc.graph.graph import Graph, evaluate
from npuc.importer.onnx import import_onnx
from npuc.ops.conv import Conv
from npuc.ops.normalize import BatchNorm
from npuc.passes import GRAPH_PASSES, run_passes
from tests.onnx_models import run_oracle
from tests.shared_data import shared_file

NETWORKS: dict[str, dict[str, tuple[int, ...]]] = {
    "mlperf_ic_resnet8": {},
    "mlperf_ic_resnet_large": {},
    "mlperf_vww_mbv1_025": {},
    "mlperf_kws_dscnn": {},
    "mlperf_ad_ae": {},
    "mnist_cntk": {},
    "fsdd_dscnn": {"input": (1, 49, 40)},
    "mlonmcu_kws_m_fp32": {},
    "st_mobilenetv2_035_128": {"input_1": (1, 3, 128, 128)},
    "st_yamnet256_64x96": {"input_1": (1, 1, 64, 96)},
    "squeezenet11_224": {},
    "ultraface_slim-320": {},
    "ultraface_RFB-320": {},
    "ultraface_RFB-320_simplified": {},
    "yunet_n_320_320": {},
    "yunet_n_dynamic": {"input": (1, 3, 160, 160)},
    "fastestdet_352": {},
    "ppocr_mobile_v2.0_cls_infer": {"x": (1, 3, 48, 192)},
}


def load(name: str) -> Graph:
    return import_onnx(shared_file("models", "onnx", f"{name}.onnx"), NETWORKS[name])


@pytest.mark.parametrize("name", NETWORKS)
def test_network_keeps_its_values_through_import_and_passes(name: str, rng: np.random.Generator) -> None:
    graph = load(name)
    inputs = {x: rng.standard_normal(graph.type_of(x).shape).astype(np.float32) for x in graph.inputs}
    path = str(shared_file("models", "onnx", f"{name}.onnx"))
    expected = dict(zip(graph.outputs, run_oracle(path, inputs), strict=True))
    passed = run_passes(graph, GRAPH_PASSES)
    for got in (evaluate(graph, inputs), evaluate(passed, inputs), FloatEvaluator(passed, passed.outputs)(inputs)):
        for output in graph.outputs:
            np.testing.assert_allclose(got[output], expected[output], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["mlperf_ad_ae", "mnist_cntk", "mlonmcu_kws_m_fp32"])
def test_dense_layers_are_convolutions_with_nothing_between(name: str) -> None:
    graph = run_passes(load(name), GRAPH_PASSES)
    views = [node for node in graph.nodes if node.op.view]
    at_the_ends = [node for node in views if {*node.inputs} & {*graph.inputs} or {*node.outputs} & {*graph.outputs}
                   or graph.users[node.outputs[0]][0].op.kind == "Softmax"]
    assert views == at_the_ends
    assert sum(isinstance(node.op, Conv) for node in graph.nodes) >= 3


def test_no_batch_normalization_and_no_double_transpose_is_left_in_ultraface() -> None:
    graph = run_passes(load("ultraface_slim-320"), GRAPH_PASSES)
    assert not any(isinstance(node.op, BatchNorm) for node in graph.nodes)
    assert sum(isinstance(node.op, Conv) for node in graph.nodes) == 42


def test_names_of_the_model_survive_the_passes() -> None:
    graph = run_passes(load("mlonmcu_kws_m_fp32"), GRAPH_PASSES)
    assert {"Relu__14:0", "Relu__19:0", "Relu__5:0"} <= set(graph.values)
    assert {source for node in graph.nodes for source in node.sources} >= {"Relu__14", "Add__17"}


def test_evaluator_stacks_samples_and_gives_every_value(rng: np.random.Generator) -> None:
    graph = run_passes(load("mnist_cntk"), GRAPH_PASSES)
    images = rng.standard_normal((3, 1, 28, 28)).astype(np.float32)
    values = FloatEvaluator(graph)({"Input3": images})
    assert set(values) == {name for node in graph.nodes for name in node.outputs}
    single = evaluate(graph, {"Input3": images[2:]})
    np.testing.assert_allclose(values["Plus214_Output_0"][2:], single["Plus214_Output_0"], rtol=1e-4, atol=1e-4)
