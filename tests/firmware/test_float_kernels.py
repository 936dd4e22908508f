"""Float kernels: numpy's results within 1e-6, and the same bits whatever compiler and core."""

import os
import shutil
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from isa.arithmetic import quantize
from npuc.compiler import import_model
from npuc.firmware.graph_runner import Backend, lower_to_kernels, run_program
from npuc.firmware.host import HostKernels, host_kernels
from npuc.firmware.toolchain import TARGETS, ToolchainError, build_kernels, find_compiler
from npuc.graph.graph import evaluate
from npuc.importer.tflite import import_tflite
from npuc.ops.unary import FUNCTIONS, Unary
from simulator.arm_kernels import ArmKernels
from tests.firmware.float_operators import FLOAT_FAMILIES, check_float, float_cases, run_case
from tests.firmware.operators import Case
from tests.shared_data import leave_out, shared_file

N_CASES = int(os.environ.get("NPUC_KERNEL_CASES", "200"))
"""Of each family on this machine, of all families together on all cores."""

CORES = {
    "cortex-m4": "cortex-m4",
    "cortex-m4-soft": "cortex-m4",
    "cortex-m7": "cortex-m7",
    "cortex-m33": "cortex-m33",
    "aarch64": "aarch64",
}
"""The core that runs the image of a target."""


@cache
def backend(target: str) -> Backend:
    """The kernels for a target, or by a compiler of this machine; the test is left out where none can make them."""
    if target in CORES:
        try:
            find_compiler(TARGETS[target])
        except ToolchainError as failure:
            leave_out(failure.message)
        return ArmKernels(build_kernels(target), CORES[target])
    if not shutil.which(target):
        leave_out(f"no {target} on PATH")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", target)
        return HostKernels(build_kernels("host"))


def backends() -> dict[str, Backend]:
    """Every build there is."""
    return {target: backend(target) for target in ("gcc", "clang", *CORES)}


@pytest.mark.parametrize("family", FLOAT_FAMILIES)
def test_random_operators_are_near_the_reference(family: str) -> None:
    @settings(max_examples=N_CASES)
    @given(float_cases((family,)))
    def run(case: Case) -> None:
        check_float(case, run_case(case, host_kernels()))

    run()


def test_every_build_gives_the_same_bits() -> None:
    builds = backends()

    @settings(max_examples=N_CASES)
    @given(float_cases())
    def run(case: Case) -> None:
        results = {name: run_case(case, build) for name, build in builds.items()}
        different = [name for name, got in results.items() if got.tobytes() != results["gcc"].tobytes()]
        assert not different, f"{different} differ from gcc in {case.op}"

    run()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_over_all_of_float32(name: str) -> None:
    """A walk through all exponents and signs, and a fine one where functions bend; bits on every build."""
    coarse = np.arange(0, 1 << 32, 190_573, dtype=np.int64).astype(np.uint32).view(np.float32)
    fine = np.linspace(-30, 30, 20_001, dtype=np.float32)
    parameters = tuple(float(np.float32(default)) for _, default in FUNCTIONS[name].attributes)
    case = Case(Unary(name, (1.5,) if name == "pow" else parameters), [np.concatenate([coarse, fine])], (), None)
    results = {target: run_case(case, build) for target, build in backends().items()}
    check_float(case, results["gcc"])
    assert [target for target, got in results.items() if got.tobytes() != results["gcc"].tobytes()] == []


@pytest.mark.parametrize("target", ["gcc", *CORES])
def test_float_outputs_of_a_network_equal_tensorflow_lite_micro(target: str) -> None:
    """lenet300 ends with a logarithm of a softmax in float32."""
    graph = import_tflite(shared_file("models", "tflite", "lenet300.tflite").read_bytes(), "lenet300")
    samples = np.load(shared_file("golden", "lenet300.npz"))
    golden = np.load(shared_file("golden", "lenet300.tflm.npz"))
    program = lower_to_kernels(graph)
    (value,) = graph.inputs
    quant = graph.values[value].quant
    assert quant is not None
    for sample in range(5):
        feeds = {value: quantize(samples[f"in0_s{sample}"], quant.scale, quant.zero_point, "int8", half_even=False)}
        (output,) = run_program(program, feeds, backend(target)).values()
        np.testing.assert_allclose(output, golden[f"tflm_out0_s{sample}"], rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["mnist_cntk", "mlperf_ic_resnet8", "mlonmcu_kws_m_fp32", "yunet_n_320_320"])
def test_a_float_network_is_near_numpy(name: str, rng: np.random.Generator) -> None:
    """Of the largest element of each output; errors add up over the layers."""
    graph = import_model(shared_file("models", "onnx", f"{name}.onnx"), {})
    feeds = {value: rng.standard_normal(graph.values[value].shape).astype(np.float32) for value in graph.inputs}
    expected = evaluate(graph, feeds)
    for value, output in run_program(lower_to_kernels(graph), feeds, host_kernels()).items():
        assert np.abs(output - expected[value]).max() <= 2e-5 * np.abs(expected[value]).max()
