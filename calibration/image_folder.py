"""Folders of images, in the order of their file names."""

import struct
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from calibration.errors import CalibrationError
from calibration.preprocess import Preprocessing, preprocess_image

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".webp"})
MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"})
BAD_IMAGE = (OSError, SyntaxError, ValueError, EOFError, struct.error)
TOO_LARGE = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def read_images(folder: Path, selection: slice, preprocessing: Preprocessing | None) -> NDArray[np.float32]:
    """The selected images of a folder, preprocessed: float32 [n, ...]. Files with other suffixes are not counted.

    CalibrationError: no preprocessing, no image selected, an image that cannot be decoded or has more than 8 bits a
    channel.
    """
    if preprocessing is None:
        raise CalibrationError(
            f"{folder}: images need a preprocessing file", hint="see docs/calibration.md for an example"
        )
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    selected = files[selection]
    if not selected:
        raise CalibrationError(
            f"{folder}: 0 of {len(files)} images selected, at least 1 is needed",
            hint="check the folder and the slice after @",
        )
    return np.stack([preprocess_image(_open(file), preprocessing, str(file)) for file in selected])


def _open(file: Path) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(file)
            image.load()
    except TOO_LARGE as error:
        raise CalibrationError(
            f"{file}: image has too many pixels, at most {Image.MAX_IMAGE_PIXELS} are read", hint="shrink the image"
        ) from error
    except BAD_IMAGE as error:
        raise CalibrationError(f"{file}: cannot be decoded as an image", hint="replace or remove the file") from error
    if image.mode not in MODES:
        raise CalibrationError(
            f"{file}: pixel mode is {image.mode}, must be 8 bits a channel: {', '.join(sorted(MODES))}",
            hint="convert the image to 8 bits",
        )
    return image
