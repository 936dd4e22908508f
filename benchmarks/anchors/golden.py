"""Golden inputs and outputs of a TFLite network: TFLite Micro's where it runs the network, else LiteRT's reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.network import SHARED

Array = npt.NDArray[np.generic]

N_SAMPLES = 5
LARGE_MACS = 20_000_000
"""From this size on, one sample is run where not all are asked for."""

RELATIVE = {"lenet300": 1e-6}
"""Networks whose outputs are computed in floating point, and the relative difference that they may have."""


@dataclass(frozen=True)
class Golden:
    """Files of the inputs, and the expected outputs, in the order of the model; axis 0 is samples x batch."""

    inputs: list[Path]
    outputs: list[Array]
    relative: float


def read_golden(name: str, folder: Path, n_samples: int) -> Golden:
    """The first samples of a network; the files of its inputs are written to `folder`."""
    archive, micro = SHARED / "golden" / f"{name}.npz", SHARED / "golden" / f"{name}.tflm.npz"
    paths = []
    for i, array in enumerate(stacked(archive, "in", n_samples)):
        paths.append(folder / f"anchor-in{i}.npy")
        np.save(paths[-1], array)
    outputs = stacked(micro, "tflm_out", n_samples) if micro.exists() else stacked(archive, "out", n_samples)
    return Golden(paths, outputs, RELATIVE.get(name, 0.0))


def stacked(path: Path, prefix: str, n_samples: int) -> list[Array]:
    """The arrays `<prefix><i>_s<sample>`, one for each i, samples along axis 0."""
    with np.load(path) as archive:
        found: list[Array] = []
        while f"{prefix}{len(found)}_s0" in archive:
            found.append(np.concatenate([archive[f"{prefix}{len(found)}_s{k}"] for k in range(n_samples)]))
    return found


def compare(golden: Golden, outputs: Path) -> int:
    """How many elements of the outputs in an .npz file differ; one of another type or shape differs as a whole."""
    with np.load(outputs) as archive:
        got = [archive[name] for name in archive.files]
    if len(got) != len(golden.outputs):
        return sum(array.size for array in golden.outputs)
    return sum(differing(*pair, golden.relative) for pair in zip(got, golden.outputs, strict=True))


def differing(got: Array, expected: Array, relative: float) -> int:
    """Elements that differ by more than the relative tolerance."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return expected.size
    if relative:
        return int((~np.isclose(got, expected, rtol=relative, atol=0)).sum())
    return int((got != expected).sum())
