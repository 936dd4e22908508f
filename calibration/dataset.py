"""Calibration and test samples: .npy and .npz arrays, and folders of images.

A source is written `path`, `file.npz:key`, or either with a slice of the samples: `images@0::2`, `mnist.npz@:100`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.arrange import arrange
from calibration.array_file import array_names, read_array
from calibration.errors import CalibrationError
from calibration.finite import require_finite
from calibration.image_folder import read_images
from calibration.preprocess import Preprocessing, preprocess_pixels

DEFAULT_KEY = "x"
LABEL_KEY = "y"
EVERY_SAMPLE = slice(None)
SLICE = re.compile(r"(-?\d{0,9}):(-?\d{0,9})(?::([1-9]\d{0,8}))?")

Shape = Sequence[int | None]


@dataclass(frozen=True)
class Source:
    """Where samples come from: a file or folder, a key of an .npz file ("" for the default), and which samples."""

    path: Path
    key: str
    selection: slice


def parse_source(text: str) -> Source:
    """Split `path[:key][@start:stop[:step]]`. A path that exists as written is taken whole."""
    if Path(text).exists():
        return Source(Path(text), "", EVERY_SAMPLE)
    body, at, tail = text.rpartition("@")
    match = SLICE.fullmatch(tail) if at else None
    if match is None:
        body, selection = text, EVERY_SAMPLE
    else:
        selection = slice(*(int(bound) if bound else None for bound in match.groups()))
    path, colon, key = body.rpartition(":")
    if colon and path.endswith(".npz"):
        return Source(Path(path), key, selection)
    return Source(Path(body), "", selection)


def load_samples(
    source: str, input_name: str, shape: Shape, preprocessing: Preprocessing | None = None
) -> NDArray[np.float32]:
    """Samples for one network input of `shape`: float32 [n, *shape[1:]], finite, n >= 1.

    From an .npz file without a key in the source: the array called like the input, else `x`, else the only array.
    `preprocessing` is required for images, and applies to uint8 images [n,h,w] or [n,h,w,c] in arrays too.
    CalibrationError: anything that is missing, unreadable, of another shape, or holds NaN or infinities.
    """
    parsed = parse_source(source)
    if parsed.path.is_dir():
        return _finite(
            arrange(read_images(parsed.path, parsed.selection, preprocessing), shape, source), source, input_name
        )
    key = parsed.key or _find_key(parsed.path, input_name)
    samples = _selected(read_array(parsed.path, key), parsed)
    if preprocessing is not None:
        samples = preprocess_pixels(samples, preprocessing, source)
    return _finite(arrange(samples, shape, source), source, input_name)


def load_inputs(
    source: str, shapes: Mapping[str, Shape], preprocessing: Preprocessing | None = None
) -> dict[str, NDArray[np.float32]]:
    """Samples for all inputs of a network, by input name; with several inputs, an .npz file has one array for each.

    CalibrationError: as `load_samples`; a key missing; arrays with different numbers of samples.
    """
    if len(shapes) > 1:
        _require_keys(parse_source(source), shapes)
    inputs = {name: load_samples(source, name, shape, preprocessing) for name, shape in shapes.items()}
    lengths = {name: len(array) for name, array in inputs.items()}
    if len(set(lengths.values())) > 1:
        raise CalibrationError(
            f"{source}: numbers of samples {lengths} must be equal", hint="store as many for each input"
        )
    return inputs


def load_labels(source: str) -> NDArray[np.int64]:
    """Class labels [n] of the same samples: array `y` of an .npz file, or the key that the source gives."""
    parsed = parse_source(source)
    labels = _selected(read_array(parsed.path, parsed.key or LABEL_KEY), parsed)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise CalibrationError(
            f"{source}: labels are {labels.dtype} {list(labels.shape)}, must be integers [n]",
            hint="store class indices",
        )
    return labels.astype(np.int64)


def _selected(array: NDArray[Any], source: Source) -> NDArray[Any]:
    if array.ndim == 0:
        raise CalibrationError(f"{source.path}: array is a scalar, must have an axis of samples", hint="add axis 0")
    selected: NDArray[Any] = array[source.selection]
    if len(selected) == 0:
        raise CalibrationError(
            f"{source.path}: 0 of {len(array)} samples selected, at least 1 is needed", hint="widen the slice after @"
        )
    return selected


def _find_key(path: Path, input_name: str) -> str:
    names = array_names(path)
    for key in (input_name, DEFAULT_KEY):
        if key in names:
            return key
    if len(names) == 1:
        return names[0]
    raise CalibrationError(
        f"{path}: has arrays {names}, none called {input_name!r} or {DEFAULT_KEY!r}", hint=f"choose one: {path}:KEY"
    )


def _require_keys(source: Source, shapes: Mapping[str, Shape]) -> None:
    if source.key or source.path.is_dir():
        raise CalibrationError(
            f"{source.path}: gives one array for the {len(shapes)} inputs {list(shapes)}",
            hint="store an .npz file with one array called like each input",
        )
    names = array_names(source.path)
    missing = [name for name in shapes if name not in names]
    if missing:
        raise CalibrationError(
            f"{source.path}: has arrays {names}, needs also {missing}", hint="store one array called like each input"
        )


def _finite(samples: NDArray[np.float32], source: str, input_name: str) -> NDArray[np.float32]:
    require_finite(samples, f"{source}: tensor {input_name}")
    return samples
