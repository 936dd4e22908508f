"""Preprocessing of one image, and its TOML file."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calibration import CalibrationError, Preprocessing, read_preprocessing
from calibration.preprocess import preprocess_image

DOCS = Path(__file__).parents[2] / "docs" / "calibration.md"
COLUMNS = np.broadcast_to(np.arange(12, dtype=np.uint8)[None, :, None] * 20, (4, 12, 3)).copy()


def preprocessed(
    settings: Preprocessing, pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = COLUMNS
) -> np.ndarray:
    return preprocess_image(Image.fromarray(pixels), settings, "image.png")


def test_short_side_keeps_the_aspect_ratio_and_crops_the_center() -> None:
    values = preprocessed(Preprocessing(size=(4, 4), resize="short-side"))
    assert values[0, 0].tolist() == [80, 100, 120, 140]


def test_short_side_may_be_larger_than_the_crop() -> None:
    values = preprocessed(Preprocessing(size=(2, 2), resize="short-side", short_side=4))
    assert values[0, 0].tolist() == [100, 120]


def test_the_default_short_side_covers_a_crop_of_any_aspect_ratio() -> None:
    for size in ((3, 17), (17, 3), (5, 5)):
        assert preprocessed(Preprocessing(size=size, resize="short-side")).shape == (3, *size)
        assert preprocessed(Preprocessing(size=size, resize="short-side"), COLUMNS.transpose(1, 0, 2).copy()).min() >= 0


def test_stretch_ignores_the_aspect_ratio() -> None:
    values = preprocessed(Preprocessing(size=(4, 1), layout="NHWC"))
    assert values.shape == (4, 1, 3)
    assert values[0, 0, 0] == pytest.approx(110, abs=1)


def test_values_are_divided_then_normalized_per_channel() -> None:
    pixel = np.array([[[255, 0, 51]]], np.uint8)
    settings = Preprocessing(size=(1, 1), scale=255.0, mean=(0.5, 0.0, 0.2), std=(0.5, 1.0, 2.0))
    np.testing.assert_allclose(preprocessed(settings, pixel).reshape(-1), [1, 0, 0], atol=1e-7)
    bgr = Preprocessing(size=(1, 1), channel_order="BGR", mean=(1.0, 2.0, 3.0))
    assert preprocessed(bgr, pixel).reshape(-1).tolist() == [50, -2, 252]


def test_an_image_that_would_grow_without_bound_is_refused() -> None:
    thin = np.zeros((1, 50_000, 3), np.uint8)
    with pytest.raises(CalibrationError, match=r"image\.png: image of 1x50000 would be resized to 224x11200000"):
        preprocessed(Preprocessing(size=(224, 224), resize="short-side"), thin)


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    example = DOCS.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    path = tmp_path / "p.toml"
    path.write_text(example)
    assert read_preprocessing(path) == Preprocessing(
        size=(224, 224),
        resize="short-side",
        short_side=256,
        channel_order="BGR",
        mean=(104.0, 117.0, 123.0),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resize = 'stretch'", "key 'size' is missing"),
        ("size = [2, 2]\ncolour = 'RGB'", "key 'colour' is unknown, allowed are size, resize"),
        ("size = [2]", r"size is \[2\], must be \[height, width\], each 1 to 8192"),
        ("size = [0, 9000]", r"size is \[0, 9000\]"),
        ("size = [2, true]", r"size is \[2, True\]"),
        ("size = [2, 2]\nresize = 'fit'", "resize is 'fit', must be stretch or short-side"),
        ("size = [2, 2]\nchannel_order = ['RGB']", "must be RGB or BGR or gray"),
        ("size = [2, 2]\nstd = 0", "std is 0, must be a number other than 0"),
        ("size = [2, 2]\nstd = [1, 2, 1e-60]", "must be a number other than 0"),
        ("size = [2, 2]\nmean = nan", "mean is nan, must be a number"),
        ("size = [2, 2]\nmean = [1, 2]", r"mean is \[1, 2\], must be a number, or one per channel"),
        ("size = [2, 2]\nchannel_order = 'gray'\nmean = [1, 2, 3]", "mean has 3 values, gray has 1 channels"),
        ("size = [2, 2]\nscale = '255'", "scale is '255', must be a number other than 0"),
        ("size = [9, 2]\nshort_side = 8", r"short_side 8 is less than the crop \[9, 2\]"),
        ("size = [", "is not TOML"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(CalibrationError, match=rf"p\.toml: .*{message}"):
        read_preprocessing(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="cannot be read: No such file"):
        read_preprocessing(tmp_path / "p.toml")
