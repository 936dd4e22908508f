"""Image preprocessing: resize, crop, channel order, normalization, layout."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from calibration.errors import CalibrationError

MAX_PIXELS = 1 << 26
CHANNELS = {"RGB": 3, "BGR": 3, "gray": 1}


@dataclass(frozen=True)
class Preprocessing:
    """Steps from an image file to one network input, in order.

    size: output (height, width) in pixels. resize: `stretch` to size, or `short-side`: keep the aspect ratio, make
    the shorter side `short_side` pixels (0: the least that covers size), then crop the center. channel_order: RGB,
    BGR or gray. Values 0..255 become (x / scale - mean) / std, with one mean and std, or one per channel in
    channel_order. layout: NCHW or NHWC, of which N is the samples.
    """

    size: tuple[int, int]
    resize: str = "stretch"
    short_side: int = 0
    crop: str = "center"
    channel_order: str = "RGB"
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    layout: str = "NCHW"


def preprocess_image(image: Image.Image, settings: Preprocessing, source: str) -> NDArray[np.float32]:
    """One image as float32 [c, h, w] or [h, w, c]; `source` names it in messages.

    Resizing is Pillow's bilinear filter, which averages when it shrinks. An image that would grow beyond 2**26 pixels
    raises CalibrationError.
    """
    image = image.convert("L" if settings.channel_order == "gray" else "RGB")
    is_cropped = settings.resize == "short-side"
    image = _short_side_crop(image, settings, source) if is_cropped else _resize(image, settings.size, source)
    pixels = np.asarray(image, np.float32).reshape(*settings.size, CHANNELS[settings.channel_order])
    if settings.channel_order == "BGR":
        pixels = pixels[:, :, ::-1]
    mean, std = np.array(settings.mean, np.float32), np.array(settings.std, np.float32)
    values = (pixels / np.float32(settings.scale) - mean) / std
    return np.ascontiguousarray(values.transpose(2, 0, 1) if settings.layout == "NCHW" else values)


def preprocess_pixels(images: NDArray[Any], settings: Preprocessing, source: str) -> NDArray[np.float32]:
    """Images uint8 [n, h, w], [n, h, w, 1] or RGB [n, h, w, 3] as `preprocess_image` gives them, [n, ...]."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
        raise CalibrationError(
            f"{source}: preprocessing takes uint8 [n, h, w] or [n, h, w, 1 or 3], "
            f"got {images.dtype} {list(images.shape)}",
            hint="leave out the preprocessing file for arrays that are network inputs already",
        )
    pixels = images[..., 0] if images.shape[3:] == (1,) else images
    return np.stack([preprocess_image(Image.fromarray(image), settings, source) for image in pixels])


def _resize(image: Image.Image, size: tuple[int, int], source: str) -> Image.Image:
    if size[0] * size[1] > MAX_PIXELS:
        raise CalibrationError(
            f"{source}: image of {image.height}x{image.width} would be resized to {size[0]}x{size[1]}, "
            f"at most {MAX_PIXELS} pixels are allowed",
            hint='remove the image, or use resize = "stretch"',
        )
    return image.resize((size[1], size[0]), Image.Resampling.BILINEAR)


def _short_side_crop(image: Image.Image, settings: Preprocessing, source: str) -> Image.Image:
    height, width = settings.size
    target, reference = _short_side_ratio(image, settings)
    scaled = (_scaled(image.height, target, reference), _scaled(image.width, target, reference))
    top, left = (scaled[0] - height) // 2, (scaled[1] - width) // 2
    return _resize(image, scaled, source).crop((left, top, left + width, top + height))


def _short_side_ratio(image: Image.Image, settings: Preprocessing) -> tuple[int, int]:
    """Scale factor as a fraction; by default the least for which the image covers the crop."""
    height, width = settings.size
    if settings.short_side:
        return settings.short_side, min(image.height, image.width)
    is_height_tighter = height * image.width >= width * image.height
    return (height, image.height) if is_height_tighter else (width, image.width)


def _scaled(side: int, target: int, reference: int) -> int:
    return (side * target + reference // 2) // reference
