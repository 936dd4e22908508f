"""Arrays in .npy and .npz files, which may come from anywhere: no pickles, bounded sizes."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.errors import CalibrationError

MAX_ARRAY_BYTES = 8 << 30
NPY_NAME = ""
"""The name of the one array of an .npy file."""

UNREADABLE = (ValueError, EOFError, OSError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def array_names(path: Path) -> list[str]:
    """Names of the arrays of an .npz file, sorted; [""] for any other file."""
    if not zipfile.is_zipfile(path):
        return [NPY_NAME]
    try:
        with zipfile.ZipFile(path) as archive:
            return sorted(name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy"))
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def read_array(path: Path, name: str) -> NDArray[Any]:
    """One array; an .npy file has only "". CalibrationError names the file and what is wrong with it."""
    names = array_names(path)
    if name not in names:
        raise CalibrationError(f"{path}: has no array {name!r}, has {names}", hint="choose one of these names")
    try:
        return _read_member(path, name) if zipfile.is_zipfile(path) else _map_npy(path)
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _map_npy(path: Path) -> NDArray[Any]:
    """A mapped file cannot claim more data than it has, and a slice of it reads no more than the slice."""
    return np.asarray(np.lib.format.open_memmap(path, mode="r"))


def _read_member(path: Path, name: str) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        if member.file_size > MAX_ARRAY_BYTES:
            raise CalibrationError(
                f"{path}: array {name!r} has {member.file_size} bytes, at most {MAX_ARRAY_BYTES} are read",
                hint="store fewer samples",
            )
        with archive.open(member) as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _unreadable(path: Path, error: Exception) -> CalibrationError:
    if isinstance(error, OSError) and error.strerror:
        return CalibrationError(f"{path}: cannot be read: {error.strerror}", hint="check the path")
    return CalibrationError(
        f"{path}: is not a readable .npy or .npz file",
        hint="write it with numpy.save or numpy.savez, without object arrays",
    )
