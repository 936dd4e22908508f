"""Acceptance checks of the kernels for the Arm core."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.checks import Outcome
from benchmarks.network import BY_NAME, tflite_model
from benchmarks.process import npuc, run
from isa.container import read_container
from npuc.cli.check import reference_graph
from npuc.firmware.graph_runner import Backend, lower_to_kernels, run_program
from npuc.firmware.host import host_kernels
from npuc.firmware.toolchain import build_kernels
from npuc.graph.graph import Graph
from npuc.importer.tflite import import_tflite
from simulator.arm_kernels import ArmKernels

CORES = ("cortex-m4", "cortex-m7", "cortex-m33")
N_RUNS = 3


def kernel_speed(limit_cpu_s: float, folder: Path) -> Outcome:
    """CPU seconds of an inference: squeezenet11_224 on this machine, ResNet8 on each Cortex-M in the emulator."""
    outcome, network = Outcome(), BY_NAME["squeezenet11_224"]
    path = folder / "kernels.npu"
    outcome.add(npuc("compile", network.model, *network.compile_arguments(folder), "--target", "edge-256",
                     "--no-lock", "-o", path))  # fmt: skip
    large = reference_graph(read_container(path.read_bytes()))
    small = import_tflite(Path(tflite_model("mlperf_resnet8")).read_bytes(), "mlperf_resnet8")
    outcome.figures["squeezenet11_224 on the host"] = inference_cpu_s(large, host_kernels())
    for core in CORES:
        outcome.figures[f"mlperf_resnet8 on {core}"] = inference_cpu_s(small, ArmKernels(build_kernels(core), core))
    outcome.require(max(outcome.figures.values()) <= limit_cpu_s)
    return outcome


def inference_cpu_s(graph: Graph, backend: Backend) -> float:
    """The least of several runs."""
    program = lower_to_kernels(graph)
    feeds = {name: np.zeros(graph.values[name].shape, graph.values[name].dtype) for name in graph.inputs}
    seconds = []
    for _ in range(N_RUNS):
        start = time.process_time()
        run_program(program, feeds, backend)
        seconds.append(time.process_time() - start)
    return round(min(seconds), 3)


def random_kernels(n_cases: int, folder: Path) -> Outcome:
    """Random operators: reference = C on the host = Cortex-M4 = M7 = M33 = aarch64; float bits equal on all."""
    outcome = Outcome()
    tests = [f"tests/firmware/{name}.py" for name in ("test_kernels", "test_float_kernels", "test_arm_kernels")]
    finished = outcome.add(run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
                               statuses=range(256), environment={"NPUC_KERNEL_CASES": str(n_cases)}))  # fmt: skip
    outcome.figures = {"status": finished.status, "last_line": finished.out.strip().splitlines()[-1:]}
    outcome.require(finished.status == 0)
    return outcome
