"""The real networks that are measured, with their data: one row each, and the files made from it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
SHARED = (ROOT / os.environ.get("NPUC_SHARED", "../shared")).resolve()
N_RANDOM = 32

Draw = Callable[[np.random.Generator, tuple[int, ...]], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Network:
    """A float network: sources of samples in the shared data, or how random ones are drawn."""

    name: str
    calibration: str = ""
    test: str = ""
    preprocess: str = ""
    """Preprocessing of the photographs, as TOML; they are then the data."""
    random: tuple[tuple[int, ...], Draw] | None = None
    """Shape of one sample, and its distribution."""
    shape: str = ""
    has_labels: bool = False

    @property
    def model(self) -> Path:
        """The model file."""
        return SHARED / "models" / "onnx" / f"{self.name}.onnx"

    def compile_arguments(self, folder: Path) -> list[str]:
        """Options of `npuc calibrate` and `npuc compile` that say how to read model and data."""
        shape = ["--shape", self.shape] if self.shape else []
        return ["--data", self.source(folder, self.calibration, "0::2"), *self.preprocessing(folder), *shape]

    def run_arguments(self, folder: Path) -> list[str]:
        """Options of `npuc run` that give every test sample."""
        return ["--input", self.test_source(folder), *self.preprocessing(folder)]

    def test_source(self, folder: Path) -> str:
        """Where the test samples are."""
        return self.source(folder, self.test, "1::2")

    def source(self, folder: Path, data: str, part: str) -> str:
        """The samples of one part; random ones are written to `folder` and serve both parts."""
        if self.preprocess:
            return f"{SHARED / 'data' / 'images'}@{part}"
        if self.random is None:
            return str(SHARED / "data" / data)
        shape, draw = self.random
        path = folder / f"{self.name}.npy"
        np.save(path, draw(np.random.default_rng(0), (N_RANDOM, *shape)).astype(np.float32))
        return str(path)

    def preprocessing(self, folder: Path) -> list[str]:
        """The option that names the preprocessing file, which is written to `folder`."""
        if not self.preprocess:
            return []
        path = folder / f"{self.name}.toml"
        path.write_text(self.preprocess, encoding="utf-8")
        return ["--preprocess", str(path)]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Standard normal."""
    return rng.standard_normal(shape)


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Uniform from 0 to 1."""
    return rng.random(shape)


def log_mel(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Normal with mean -2.5 and deviation 1."""
    return rng.normal(-2.5, 1.0, shape)


CIFAR = ("cifar10_calib256.npz", "cifar10_test2000.npz")
FSDD = ("fsdd_logmel_calib256.npz", "fsdd_logmel_test1020.npz")

NETWORKS = (
    Network("mlperf_ic_resnet8", *CIFAR, has_labels=True),
    Network("mlperf_ic_resnet_large", *CIFAR, has_labels=True),
    Network("mlperf_vww_mbv1_025", random=((3, 96, 96), uniform)),
    Network("mlperf_kws_dscnn", random=((49, 10, 1), normal)),
    Network("mlperf_ad_ae", random=((640,), log_mel)),
    Network("mnist_cntk", "mnist_test.npz@:100", "mnist_test.npz@100:", has_labels=True),
    Network("fsdd_dscnn", *FSDD, shape="input=1,49,40", has_labels=True),
    Network("mlonmcu_kws_m_fp32", random=((1960,), normal)),
    Network(
        "st_mobilenetv2_035_128",
        preprocess="size = [128, 128]\nscale = 127.5\nmean = 1\n",
        shape="input_1=1,3,128,128",
    ),
    Network(
        "squeezenet11_224",
        preprocess='size = [224, 224]\nresize = "short-side"\nshort_side = 256\nchannel_order = "BGR"\n'
        "mean = [104, 117, 123]\n",
    ),
    Network("ultraface_slim-320", preprocess="size = [240, 320]\nmean = 127\nstd = 128\n"),
)

DETECTORS = (
    Network("yunet_n_320_320", preprocess='size = [320, 320]\nchannel_order = "BGR"\n'),
    Network("fastestdet_352", preprocess='size = [352, 352]\nchannel_order = "BGR"\nscale = 255\n'),
)

BY_NAME = {network.name: network for network in NETWORKS}

TFLITE = (
    "mlperf_resnet8",
    "mlperf_resnet8_large",
    "mlperf_vww",
    "mlperf_kws",
    "mlperf_sww",
    "mlperf_ad",
    "micro_speech",
    "person_detect",
)


def tflite_model(name: str) -> Path:
    """A TFLite model file."""
    return SHARED / "models" / "tflite" / f"{name}.tflite"


def golden_inputs(name: str, folder: Path) -> tuple[Path, list[list[npt.NDArray[np.generic]]]]:
    """An .npy file of the five golden inputs, and TFLite Micro's outputs of each, one list an output."""
    with np.load(SHARED / "golden" / f"{name}.npz") as archive:
        samples = np.concatenate([archive[f"in0_s{k}"] for k in range(5)])
    path = folder / f"{name}.npy"
    np.save(path, samples)
    with np.load(SHARED / "golden" / f"{name}.tflm.npz") as archive:
        n_outputs = len(archive.files) // 5
        return path, [[archive[f"tflm_out{i}_s{k}"] for k in range(5)] for i in range(n_outputs)]
