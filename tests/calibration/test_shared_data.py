"""The labelled data of the project, in the shapes of the networks that they calibrate."""

import pytest

from calibration import Preprocessing, load_labels, load_samples
from tests.shared_data import shared_file


@pytest.mark.parametrize(
    ("source", "shape", "n_samples"),
    [
        ("cifar10_calib256.npz", (1, 3, 32, 32), 256),
        ("mnist_test.npz@:100", (1, 1, 28, 28), 100),
        ("fsdd_logmel_calib256.npz", (1, 49, 40), 256),
        ("fsdd_logmel_calib256.npz@:8", (1, 1, 49, 40), 8),
    ],
)
def test_stored_arrays_feed_their_networks(source: str, shape: tuple[int, ...], n_samples: int) -> None:
    path = f"{shared_file('data')}/{source}"
    assert load_samples(path, "input", shape).shape == (n_samples, *shape[1:])
    assert load_labels(path).shape == (n_samples,)


def test_even_and_odd_images_share_the_folder() -> None:
    images = shared_file("data", "images")
    settings = Preprocessing(size=(32, 32), resize="short-side", mean=(127.0,), std=(128.0,))
    even, odd, both = (
        load_samples(f"{images}@{part}", "input", (1, 3, 32, 32), settings) for part in ("0::2", "1::2", ":")
    )
    assert len(even) + len(odd) == len(both)
    assert (both[::2] == even).all()
    assert -1 <= both.min() < both.max() <= 1
