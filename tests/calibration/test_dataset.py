"""Samples from arrays and image folders, and the shapes that networks take."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from calibration import CalibrationError, Preprocessing, arrange, load_inputs, load_labels, load_samples
from calibration.dataset import parse_source

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = tmp_path / "images"
    images.mkdir()
    for index, name in enumerate(["e", "a", "c", "b", "d"]):
        Image.fromarray(np.full((8, 8, 3), 10 * index, np.uint8)).save(images / f"{name}.png")
    (images / "notes.txt").write_text("not an image")
    return images


def saved(path: Path, **arrays: NDArray[Any]) -> Path:
    np.savez(path, allow_pickle=True, **arrays)
    return path


def test_integer_images_become_channels_first_floats() -> None:
    arranged = arrange(IMAGES, (1, 3, 4, 6))
    assert arranged.dtype == np.float32
    np.testing.assert_array_equal(arranged, IMAGES.transpose(0, 3, 1, 2))


@pytest.mark.parametrize(
    ("stored", "shape"),
    [
        ((7, 28, 28), (1, 1, 28, 28)),
        ((7, 28, 28, 1), (1, 1, 28, 28)),
        ((7, 49, 40), (None, 49, 40)),
        ((7, 5, 1, 1), (1, 5)),
    ],
)
def test_axes_of_length_one_are_reshaped(stored: tuple[int, ...], shape: tuple[int | None, ...]) -> None:
    array = np.random.default_rng(0).normal(size=stored).astype(np.float16)
    arranged = arrange(array, shape)
    assert arranged.shape == (7, *shape[1:])
    np.testing.assert_array_equal(arranged.reshape(-1), array.reshape(-1).astype(np.float32))


def test_equal_shapes_are_never_transposed() -> None:
    cube = np.arange(27, dtype=np.uint8).reshape(1, 3, 3, 3)
    np.testing.assert_array_equal(arrange(cube, (1, 3, 3, 3)), cube)


@pytest.mark.parametrize(
    ("array", "shape", "message", "hint"),
    [
        (np.zeros((2, 5)), (1, 6), "a.npy: samples float64 [2, 5] do not fit the network input [1, 6]", "[n, 6]"),
        (np.zeros((3, 4, 6)), (1, 3, 4, 6), "[3, 4, 6] do not fit the network input [1, 3, 4, 6]", "array[None]"),
        (np.zeros((2, 4, 6, 3)), (1, 3, 4, 6), "float64 [2, 4, 6, 3] do not fit", "array.transpose(0, 3, 1, 2)"),
        (np.zeros((2, 4)), (None, None), "[2, 4] do not fit the network input [?, ?]", "[n, ?]"),
        (np.zeros((2, 2), complex), (1, 2), "dtype is complex128, must be boolean, integer or float", "float32"),
        (np.full((1, 2), 1e300), (1, 2), "a value exceeds float32", "scale"),
        (np.float32(1), (1, 2), "float32 [] do not fit", "[n, 2]"),
    ],
)
def test_what_does_not_fit_is_refused_with_both_shapes(
    array: NDArray[Any], shape: tuple[int | None, ...], message: str, hint: str
) -> None:
    with pytest.raises(CalibrationError) as refused:
        arrange(np.asarray(array), shape, "a.npy")
    assert message in str(refused.value)
    assert hint in refused.value.hint


def test_sources_name_a_key_and_a_slice(tmp_path: Path) -> None:
    assert parse_source("a/b.npz:x@:100") == parse_source("a/b.npz:x@0:100:1").__class__(
        Path("a/b.npz"), "x", slice(None, 100)
    )
    assert parse_source("images@0::2").selection == slice(0, None, 2)
    assert parse_source("user@host/x.npy").path == Path("user@host/x.npy")
    assert parse_source("x.npz@::0").path == Path("x.npz@::0")
    odd = tmp_path / "a@0:1"
    odd.mkdir()
    assert parse_source(str(odd)).path == odd


def test_keys_are_found_by_input_name_then_x_then_alone(tmp_path: Path) -> None:
    a, b = np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)
    both = saved(tmp_path / "both.npz", x=a, data=b)
    only = saved(tmp_path / "only.npz", something=b)
    assert load_samples(str(both), "data", (1, 3)).all()
    assert not load_samples(str(both), "input", (1, 3)).any()
    assert load_samples(f"{both}:data", "input", (1, 3)).all()
    assert load_samples(str(only), "input", (1, 3)).all()
    neither = saved(tmp_path / "neither.npz", p=a, q=b)
    with pytest.raises(CalibrationError, match=r"has arrays \['p', 'q'\], none called 'input' or 'x'"):
        load_samples(str(neither), "input", (1, 3))
    with pytest.raises(CalibrationError, match="has no array 'z', has"):
        load_samples(f"{both}:z", "input", (1, 3))


def test_npy_files_are_sliced(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.arange(10))
    assert load_samples(f"{path}@1::4", "input", (1,)).tolist() == [1, 5, 9]
    with pytest.raises(CalibrationError, match="0 of 10 samples selected, at least 1 is needed"):
        load_samples(f"{path}@10:", "input", (1,))


def test_several_inputs_come_from_arrays_of_their_names(tmp_path: Path) -> None:
    shapes = {"a": (1, 2), "b": (1, 3)}
    good = saved(tmp_path / "good.npz", a=np.zeros((4, 2)), b=np.zeros((4, 3)))
    assert {name: array.shape for name, array in load_inputs(str(good), shapes).items()} == {"a": (4, 2), "b": (4, 3)}
    uneven = saved(tmp_path / "uneven.npz", a=np.zeros((4, 2)), b=np.zeros((5, 3)))
    with pytest.raises(CalibrationError, match=r"numbers of samples {'a': 4, 'b': 5} must be equal"):
        load_inputs(str(uneven), shapes)
    short = saved(tmp_path / "short.npz", a=np.zeros((4, 2)), x=np.zeros((4, 3)))
    with pytest.raises(CalibrationError, match=r"has arrays \['a', 'x'\], needs also \['b'\]"):
        load_inputs(str(short), shapes)
    with pytest.raises(CalibrationError, match="gives one array for the 2 inputs"):
        load_inputs(f"{good}:a", shapes)


def test_labels_follow_the_slice_of_the_samples(tmp_path: Path) -> None:
    path = saved(tmp_path / "d.npz", x=np.zeros((4, 2)), y=np.array([3, 1, 4, 1], np.uint8), bad=np.zeros((4, 2)))
    assert load_labels(f"{path}@1:3").tolist() == [1, 4]
    with pytest.raises(CalibrationError, match=r"labels are float64 \[4, 2\], must be integers \[n\]"):
        load_labels(f"{path}:bad")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite_are_refused_by_file_tensor_and_index(tmp_path: Path, value: float) -> None:
    array = np.zeros((2, 3), np.float32)
    array[1, 2] = value
    path = saved(tmp_path / "d.npz", x=array)
    with pytest.raises(CalibrationError, match=rf"d.npz: tensor input: value {value} at index \[1, 2\]"):
        load_samples(str(path), "input", (1, 3))


def test_unreadable_array_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="cannot be read: No such file"):
        load_samples(str(tmp_path / "none.npy"), "input", (1, 3))
    for content in (b"", b"text", b"\x93NUMPY\x01\x00v\x00{'descr'", b"PK\x03\x04broken"):
        path = tmp_path / "bad.npy"
        path.write_bytes(content)
        with pytest.raises(CalibrationError, match=r"is not a readable \.npy or \.npz file"):
            load_samples(str(path), "input", (1, 3))
    pickled = saved(tmp_path / "pickled.npz", x=np.array([{}], object))
    with pytest.raises(CalibrationError, match=r"is not a readable \.npy or \.npz file"):
        load_samples(str(pickled), "input", (1, 3))


def test_an_array_beyond_the_limit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "big.npz", x=np.zeros((2, 1000)))
    monkeypatch.setattr("calibration.array_file.MAX_ARRAY_BYTES", 1000)
    with pytest.raises(CalibrationError, match="array 'x' has 16128 bytes, at most 1000 are read"):
        load_samples(str(path), "input", (1, 1000))


def test_folders_are_read_in_the_order_of_names(folder: Path) -> None:
    settings = Preprocessing(size=(2, 2))
    samples = load_samples(str(folder), "input", (1, 3, 2, 2), settings)
    assert samples[:, 0, 0, 0].tolist() == [10, 30, 20, 40, 0]
    even = load_samples(f"{folder}@0::2", "input", (1, 3, 2, 2), settings)
    assert even[:, 0, 0, 0].tolist() == [10, 20, 0]


def test_bad_folders_are_refused(folder: Path) -> None:
    settings = Preprocessing(size=(2, 2))
    with pytest.raises(CalibrationError, match="images need a preprocessing file"):
        load_samples(str(folder), "input", (1, 3, 2, 2))
    with pytest.raises(CalibrationError, match="0 of 5 images selected"):
        load_samples(f"{folder}@5:", "input", (1, 3, 2, 2), settings)
    with pytest.raises(
        CalibrationError, match=r"samples float32 \[5, 3, 2, 2\] do not fit the network input \[1, 3, 4, 4\]"
    ):
        load_samples(str(folder), "input", (1, 3, 4, 4), settings)
    (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    with pytest.raises(CalibrationError, match=r"a\.png: cannot be decoded as an image"):
        load_samples(str(folder), "input", (1, 3, 2, 2), settings)
    Image.fromarray(np.zeros((4, 4), np.uint16)).save(folder / "a.png")
    with pytest.raises(CalibrationError, match=r"a\.png: pixel mode is I;16, must be 8 bits a channel"):
        load_samples(str(folder), "input", (1, 3, 2, 2), settings)


def test_an_image_bomb_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(CalibrationError, match=r"a\.png: image has too many pixels, at most 40 are read"):
        load_samples(str(folder), "input", (1, 3, 2, 2), Preprocessing(size=(2, 2)))


def test_preprocessing_applies_to_stored_images_too(tmp_path: Path) -> None:
    path = saved(tmp_path / "d.npz", x=IMAGES, gray=IMAGES[..., :1], ready=IMAGES.astype(np.float32))
    settings = Preprocessing(size=(4, 6), channel_order="BGR", mean=(127.0,), std=(128.0,))
    samples = load_samples(str(path), "input", (1, 3, 4, 6), settings)
    np.testing.assert_allclose(samples, (IMAGES[..., ::-1].transpose(0, 3, 1, 2) - 127.0) / 128, rtol=1e-6)
    gray = Preprocessing(size=(4, 6), channel_order="gray", layout="NHWC")
    np.testing.assert_array_equal(load_samples(f"{path}:gray", "input", (1, 4, 6, 1), gray), IMAGES[..., :1])
    with pytest.raises(CalibrationError, match="preprocessing takes uint8"):
        load_samples(f"{path}:ready", "input", (1, 3, 4, 6), settings)
