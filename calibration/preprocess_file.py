"""Preprocessing settings from a TOML file."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calibration.errors import CalibrationError
from calibration.preprocess import CHANNELS, Preprocessing

MAX_SIDE_PIXELS = 8192
SEE_DOCS = "see docs/calibration.md for an example"


def read_preprocessing(path: Path) -> Preprocessing:
    """Read a preprocessing TOML file. CalibrationError names the file, the key, its value and what is allowed."""
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise CalibrationError(
            f"{path}: cannot be read: {error.strerror}", hint="give a preprocessing TOML file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"{path}: is not TOML: {error}", hint=SEE_DOCS) from error
    return parse_preprocessing(document, str(path))


def parse_preprocessing(document: dict[str, Any], source: str) -> Preprocessing:
    """Check every key of a parsed TOML document; `source` names it in messages."""
    for key in document.keys() - RULES.keys():
        raise CalibrationError(f"{source}: key {key!r} is unknown, allowed are {', '.join(RULES)}", hint="remove it")
    if "size" not in document:
        raise CalibrationError(
            f"{source}: key 'size' is missing", hint="add size = [height, width] of the network input"
        )
    settings = Preprocessing(**{key: _checked(key, value, source) for key, value in document.items()})
    _check_channels(settings, source)
    _check_short_side(settings, source)
    return settings


Rule = tuple[str, Callable[[Any], bool]]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e30


def _is_divisor(value: object) -> bool:
    return _is_number(value) and bool(np.float32(value) != 0)  # type: ignore[arg-type]


def _is_side(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIDE_PIXELS


def _is_per_channel(value: object, is_valid: Callable[[object], bool]) -> bool:
    return all(map(is_valid, value)) and len(value) in (1, 3) if isinstance(value, list) else is_valid(value)


def _one_of(*names: str) -> Rule:
    return " or ".join(names), lambda value: value in names


RULES: dict[str, Rule] = {
    "size": (
        f"[height, width], each 1 to {MAX_SIDE_PIXELS}",
        lambda value: isinstance(value, list) and len(value) == 2 and all(map(_is_side, value)),
    ),
    "resize": _one_of("stretch", "short-side"),
    "short_side": (f"an integer from 1 to {MAX_SIDE_PIXELS}", _is_side),
    "crop": _one_of("center"),
    "channel_order": _one_of(*CHANNELS),
    "scale": ("a number other than 0", _is_divisor),
    "mean": ("a number, or one per channel", lambda value: _is_per_channel(value, _is_number)),
    "std": ("a number other than 0, or one per channel", lambda value: _is_per_channel(value, _is_divisor)),
    "layout": _one_of("NCHW", "NHWC"),
}
"""What each key allows, in words and as a test. The keys are the fields of Preprocessing."""

PER_CHANNEL = frozenset({"mean", "std"})


def _checked(key: str, value: Any, source: str) -> Any:
    allowed, is_valid = RULES[key]
    if not is_valid(value):
        raise CalibrationError(f"{source}: {key} is {value!r}, must be {allowed}", hint=SEE_DOCS)
    if key in PER_CHANNEL:
        return tuple(map(float, value)) if isinstance(value, list) else (float(value),)
    return tuple(value) if isinstance(value, list) else value


def _check_channels(settings: Preprocessing, source: str) -> None:
    n_channels = CHANNELS[settings.channel_order]
    for key in sorted(PER_CHANNEL):
        n_values = len(getattr(settings, key))
        if n_values not in (1, n_channels):
            raise CalibrationError(
                f"{source}: {key} has {n_values} values, {settings.channel_order} has {n_channels} channels",
                hint="give one value, or one per channel",
            )


def _check_short_side(settings: Preprocessing, source: str) -> None:
    if 0 < settings.short_side < max(settings.size):
        raise CalibrationError(
            f"{source}: short_side {settings.short_side} is less than the crop {list(settings.size)}",
            hint=f"make short_side at least {max(settings.size)}",
        )
