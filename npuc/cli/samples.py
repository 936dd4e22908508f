"""Input arrays of a program from files, in the program's shapes, and output arrays to a file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from npuc.errors import UsageError

if TYPE_CHECKING:
    from calibration import Preprocessing
    from isa.container import IoEntry
    from npuc.graph.types import Array

RAW_DTYPES = ("int8", "uint8", "int16")
"""Stored types that pass through float32 unchanged, so that such arrays can be arranged like any other."""


class ImageLayout(StrEnum):
    """Order of the axes of images."""

    NCHW = "nchw"
    NHWC = "nhwc"


def read_inputs(
    sources: Sequence[str],
    entries: Mapping[str, IoEntry],
    layout: ImageLayout | None,
    preprocessing: Preprocessing | None,
) -> dict[str, Array]:
    """Samples for every input: `SOURCE` gives all of them, `NAME=SOURCE` one; UsageError when one is missing."""
    named = {}
    for text in sources:
        name, equals, source = text.partition("=")
        if equals and name in entries:
            named[name] = source
        elif len(sources) == 1:
            named = dict.fromkeys(entries, text)
        else:
            raise UsageError(f"input {text!r} names none of {', '.join(entries)}", hint="write it as NAME=SOURCE")
    missing = [name for name in entries if name not in named]
    if missing:
        raise UsageError(f"no samples for {', '.join(missing)}", hint="give --input SOURCE, or NAME=SOURCE for each")
    return {name: read_input(named[name], entry, layout, preprocessing) for name, entry in entries.items()}


def read_input(source: str, entry: IoEntry, layout: ImageLayout | None, preprocessing: Preprocessing | None) -> Array:
    """Samples [n, *shape[1:]] of one input: float32, or the stored type when the file has that."""
    from calibration import load_samples

    axes = stored_axes(entry, layout)
    shape = tuple(entry.shape[axis] for axis in axes)
    samples: Array = load_samples(source, entry.name, shape, preprocessing)
    samples = samples.transpose([axes.index(axis) for axis in range(len(axes))])
    is_raw = entry.dtype in RAW_DTYPES and preprocessing is None and file_dtype(source, entry.name) == entry.dtype
    return samples.astype(entry.dtype) if is_raw else samples


def random_samples(entries: Mapping[str, IoEntry], n_samples: int) -> Iterator[dict[str, Array]]:
    """Inputs of each inference in stored type, any value of it; the same in every run."""
    import numpy as np

    rng = np.random.default_rng(0)
    for _ in range(n_samples):
        # Bytes reach every integer and are the same on every machine; floats must not become NaN.
        yield {
            name: rng.standard_normal(entry.shape, np.float32)
            if entry.dtype == "float32"
            else np.frombuffer(rng.bytes(entry.n_bytes), np.dtype(entry.dtype).newbyteorder("<"))
            .astype(entry.dtype)
            .reshape(entry.shape)
            for name, entry in entries.items()
        }


def stored_axes(entry: IoEntry, layout: ImageLayout | None) -> tuple[int, ...]:
    """Axes of the input in the order in which the file has them."""
    # Rounding to even at the boundary is that of ONNX models, whose images are NCHW.
    own = ImageLayout.NCHW if entry.half_even else ImageLayout.NHWC
    if layout in (None, own) or len(entry.shape) != 4:
        return tuple(range(len(entry.shape)))
    return (0, 2, 3, 1) if own is ImageLayout.NCHW else (0, 3, 1, 2)


def file_dtype(source: str, name: str) -> str:
    """Element type of the array that `source` means for input `name`; empty for images."""
    from calibration.array_file import array_names, read_array
    from calibration.dataset import DEFAULT_KEY, parse_source

    parsed = parse_source(source)
    if parsed.path.is_dir():
        return ""
    names = array_names(parsed.path)
    found = (key for key in (name, DEFAULT_KEY, *names) if key in names)
    return read_array(parsed.path, parsed.key or next(found, "")).dtype.name


def archive_bytes(arrays: Mapping[str, Array]) -> bytes:
    """An .npz file; equal arrays give equal bytes."""
    import numpy as np

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return buffer.getvalue()
